"""Each judgement on a host, with values as hosts have them."""

from __future__ import annotations

import pytest

from pytest_ngram.doctor import host_lines
from pytest_ngram.doctor.host_lines import Busy, Clock, Cores, Governor

DESKTOP = Cores(cores=4, threads=8)  # i7-4770
VM = Cores(cores=2, threads=2)


@pytest.mark.parametrize(
    ("wanted", "host", "status", "said"),
    [
        ({"qwen": 4}, DESKTOP, "ok", "4 cores, 8 threads at once; qwen takes -t 4"),
        ({"qwen": 0}, DESKTOP, "ok", "qwen takes what llama.cpp chooses"),
        ({"qwen": 8}, DESKTOP, "warn", "hyper-threads share a core"),
        ({"qwen": 9}, DESKTOP, "fail", "asks for -t 9"),
        ({"qwen": 4}, VM, "fail", "threads wait for each other"),
        ({"small": 1, "qwen": 2}, DESKTOP, "ok", "qwen takes -t 2"),
        ({"small": 1, "qwen": 8}, DESKTOP, "warn", "qwen asks for -t 8"),
        ({"qwen": 2}, Cores(8, 16, quota=2.0), "ok", "a quota of 2 cores"),
        ({"qwen": 4}, Cores(8, 16, quota=1.5), "fail", "stopped when it is used up"),
        ({"qwen": 0}, Cores(8, 16, quota=2.0), "fail", "qwen uses 8 threads"),
        ({"qwen": 4}, Cores(None, 8), "ok", "an unknown number of cores"),
        ({"qwen": 4}, Cores(None, None), "ok", "cannot be counted"),
        ({}, DESKTOP, "ok", "4 cores, 8 threads at once"),
    ],
)
def test_threads_against_cores(wanted: dict[str, int], host: Cores, status: str, said: str) -> None:
    """As many threads as cores are well; hyper-threads warn; more than run at once, or than a quota, fail."""
    line = host_lines.cores(wanted, host)
    assert (line.status, said in line.found) == (status, True), line


def test_cores_say_which_number_to_write() -> None:
    """What to do is the number itself, and never 0 threads."""
    assert host_lines.cores({"qwen": 9}, DESKTOP).todo == "write -t 4"
    assert (host_lines.cores({"qwen": 4}, Cores(8, 16, quota=0.5)).todo or "").startswith("write -t 1,")


@pytest.mark.parametrize(
    ("host", "status", "said"),
    [
        (Governor(), "ok", "not told"),
        (Governor(("performance",) * 4, "acpi-cpufreq"), "ok", "performance (driver acpi-cpufreq)"),
        (Governor(("schedutil",) * 4, "acpi-cpufreq"), "ok", "schedutil"),
        (Governor(("powersave",) * 4, "acpi-cpufreq"), "warn", "lowest frequency"),
        (Governor(("powersave",) * 4), "warn", "driver unknown"),
        (Governor(("powersave",) * 4, "intel_pstate", "balance_performance"), "ok", "powersave"),
        (Governor(("powersave",) * 4, "amd-pstate-epp", "power"), "warn", "slower to save power"),
        (Governor(("userspace",) * 2, "acpi-cpufreq"), "warn", "does not follow"),
        (Governor(("performance", "powersave"), "acpi-cpufreq"), "warn", "cores differ"),
    ],
)
def test_governor(host: Governor, status: str, said: str) -> None:
    """`powersave` is harmless where its driver scales by load, and holds the cores down where it does not."""
    line = host_lines.governor(host)
    assert (line.status, said in line.found) == (status, True), line


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        ({"cpu": 0.4, "memory": 0.0, "io": 2.1}, "ok", "cpu 0.4 %, memory 0 %, io 2.1 %"),
        ({"cpu": 10.0, "memory": 0.0, "io": 0.0}, "warn", "wait for cpu"),
        ({"cpu": 0.0, "memory": 11.5, "io": 40.0}, "warn", "wait for memory, io"),
        ({}, "warn", "not told by this kernel"),
    ],
)
def test_pressure(told: dict[str, float], status: str, said: str) -> None:
    """Waits of the last ten seconds warn, by resource; where none are told that is said, not taken for 0."""
    line = host_lines.pressure(told)
    assert (line.status, said in line.found) == (status, True), line


@pytest.mark.parametrize(
    ("host", "status", "said"),
    [
        (
            Busy({"gnome-shell": 0.03, "cron": 0.001}, 0.01),
            "ok",
            "others take 1% of all cores; of one core: gnome-shell 3%",
        ),
        (Busy({"firefox": 0.6, "cron": 0.001}, 0.16), "warn", "of one core: firefox 60%"),
        (Busy({}, 0.5), "warn", "others take 50% of all cores"),
        (Busy({}, -0.01), "ok", "others take 0% of all cores"),
        (Busy({}, 1.02), "warn", "others take 100% of all cores"),
        (Busy({}, 0.0, another_run=True), "warn", "another run is measuring"),
    ],
)
def test_busy(host: Busy, status: str, said: str) -> None:
    """Above 5 % of all cores others are in the way, seen or not; those below 2 % of a core go unnamed."""
    line = host_lines.busy(host)
    assert (line.status, said in line.found, "cron" in line.found) == (status, True, False), line


def test_many_busy_processes_are_cut() -> None:
    """The five that take most are named, the most first."""
    line = host_lines.busy(Busy({f"p{n}": n / 10 for n in range(1, 9)}, 0.9))
    assert "of one core: p8 80%, p7 70%, p6 60%, p5 50%, p4 40%" in line.found
    assert "p3" not in line.found


NOW = 1_790_000_000.0  # September 2026


@pytest.mark.parametrize(
    ("host", "status", "said"),
    [
        (Clock("tsc", 1e-9, 25e-9, 0, NOW, NOW - 60), "ok", "tsc, a reading takes 25 ns, steps of 1 ns"),
        (Clock("kvm-clock", 1e-9, 40e-9, 0, NOW, None), "ok", "kvm-clock"),
        (Clock("arch_sys_counter", 52e-9, 40e-9, 0, NOW, NOW), "ok", "steps of 52 ns"),
        (Clock(None, 1e-9, 25e-9, 0, NOW, NOW - 60), "ok", "source not told"),
        (Clock("hpet", 70e-9, 1.2e-6, 0, NOW, NOW - 60), "warn", "hpet, a reading takes 1.2 µs"),
        (Clock("acpi_pm", 280e-9, 3e-6, 0, NOW, NOW - 60), "warn", "unsteady"),
        (Clock("tsc", 15e-6, 25e-9, 0, NOW, NOW - 60), "warn", "steps of 15 µs"),
        (Clock("jiffies", 4e-3, 25e-9, 0, NOW, NOW - 60), "fail", "steps of 4 ms"),
        (Clock("tsc", 1e-9, 25e-9, 3, NOW, NOW - 60), "fail", "backwards 3 times"),
        (Clock("tsc", 1e-9, 25e-9, 0, 1_230_768_000.0, NOW), "warn", "it is 2009-01-01 by it"),
    ],
)
def test_clock(host: Clock, status: str, said: str) -> None:
    """A fast source is well, a fall-back warns, steps as long as a decode fail; so does going backwards."""
    line = host_lines.clock(host)
    assert (line.status, said in line.found) == (status, True), line


def test_power() -> None:
    """Only a battery that is being discharged warns."""
    assert host_lines.power(True).status == "warn"
    assert (host_lines.power(False).status, host_lines.power(None).found) == ("ok", "no battery")


MIB = 2**20


@pytest.mark.parametrize(
    ("used", "total", "status", "said"),
    [
        (0, 0, "ok", "none"),
        (40 * MIB, 8192 * MIB, "ok", "40 of 8192 MiB in use"),
        (256 * MIB, 8192 * MIB, "warn", "memory was short"),
    ],
)
def test_swap(used: int, total: int, status: str, said: str) -> None:
    """A few old pages are well; more tell that memory was short."""
    line = host_lines.swap(used, total)
    assert (line.status, said in line.found) == (status, True), line
