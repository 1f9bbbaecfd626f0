"""What the kernel of three machines tells, and the reason for what it does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ngram.measure.gpu import Gpu
from pytest_ngram.measure.host import memory
from pytest_ngram.measure.sysfs import Absent, CpuTime, Machine, Sensor, known

Hosts = Callable[[str], Machine]


def test_cores_and_processes(host_of: Hosts) -> None:
    """Busy time is all but idle and waiting for disks; a process counts with those that it started."""
    machine = host_of("amd-desktop")
    assert machine.cpu_time() == CpuTime(busy_s=133.0, steal_s=0.0, all_s=943.0)
    assert machine.process_s(77) == {77: 45.0, 78: 1.5}
    assert machine.process_s(79) == {}


def test_stolen_time_is_busy_time(host_of: Hosts) -> None:
    """What a hypervisor takes is lost to the engine, as what other processes take."""
    assert host_of("virtual-machine").cpu_time() == CpuTime(busy_s=20.0, steal_s=5.0, all_s=100.0)


def test_pressure(host_of: Hosts) -> None:
    """Totals in microseconds and 10-second averages, of what the kernel has; nothing where it has none."""
    machine = host_of("amd-desktop")
    assert machine.pressure_us() == {"cpu": 1_000_000, "io": 2000, "memory": 300}
    assert machine.pressure_avg10() == {"cpu": 1.5, "io": 0.2, "memory": 0.0}
    assert host_of("intel-laptop").pressure_us() == {"cpu": 5000}
    assert host_of("virtual-machine").pressure_us() == {}


def test_memory_of_a_process(host_of: Hosts) -> None:
    """Anonymous, file, peak and swap in MiB, and major faults behind a name with brackets."""
    found = memory(77, host_of("amd-desktop").path(""))
    assert found is not None
    assert (found.rss_anon_mb, found.rss_file_mb, found.rss_peak_mb, found.swap_mb) == (100, 200, 400, 2)
    assert found.majflt == 12


@pytest.mark.parametrize(
    ("host", "sensor", "said", "temp_c"),
    [
        ("amd-desktop", None, "k10temp Tctl", 63.25),
        ("amd-desktop", "nvme", "nvme Composite", 81.85),
        ("amd-desktop", "k10temp Tccd1", "k10temp Tccd1", 55.0),
        ("intel-laptop", None, "coretemp Core 0", 74.0),
        ("intel-laptop", "acpitz", "acpitz", 48.0),
        ("intel-laptop", "BAT0", "BAT0 battery", 31.2),
        ("intel-laptop", "battery", "BAT0 battery", 31.2),
    ],
)
def test_temperature(host_of: Hosts, host: str, sensor: str | None, said: str, temp_c: float) -> None:
    """Without a name the hottest of the processor, never a disk's; a battery tells tenths of a degree."""
    found = host_of(host).temperature(sensor)
    assert isinstance(found, Sensor)
    assert (found.said, found.temp_c) == (said, pytest.approx(temp_c))


def test_no_temperature_has_a_reason(host_of: Hosts) -> None:
    """What no sensor tells is null, and the reason stands under its name."""
    machine = host_of("virtual-machine")
    absent: dict[str, str] = {}
    assert known("temp_c", machine.temperature(), absent) is None
    assert known("governor", machine.governor(), absent) is None
    assert known("throttles", machine.throttles(), absent) is None
    assert known("on_battery", machine.on_battery(), absent) is None
    assert absent == {
        "temp_c": "no sensor of the processor",
        "governor": "no cpufreq in the kernel, as in most virtual machines",
        "throttles": "the processor does not count it (Intel's do)",
        "on_battery": "no battery",
    }
    assert host_of("amd-desktop").temperature("battery") == Absent("no sensor battery")


def test_clocks_governor_throttles_and_battery(host_of: Hosts) -> None:
    """Mean and lowest clock from cpufreq, else from /proc/cpuinfo; a mouse's battery is not the machine's."""
    amd, intel, virtual = map(host_of, ("amd-desktop", "intel-laptop", "virtual-machine"))
    assert (amd.freq_mhz(), amd.governor()) == ((3500.0, 3000.0), "schedutil")
    assert virtual.freq_mhz() == (pytest.approx(2498.06), 2400.0)
    assert isinstance(intel.freq_mhz(), Absent)
    assert (intel.throttles(), intel.on_battery()) == (8, True)
    intel.path("sys/class/power_supply/BAT0/status").write_text("Charging\n")
    assert intel.on_battery() is False


def test_amd_cards(host_of: Hosts) -> None:
    """Busy is the busiest card's, memory that of all cards; a connector is no card."""
    cards = Gpu(host_of("amd-desktop")).read()
    assert (cards.busy, cards.vram_mb, cards.gtt_mb) == (0.93, 8192 + 100, 51)


def test_cards_that_do_not_tell(host_of: Hosts) -> None:
    """No card, and a card whose driver is silent, are told apart."""
    assert Gpu(host_of("virtual-machine")).read().busy == Absent("no graphics card")
    assert "i915" in str(Gpu(host_of("intel-laptop")).read().vram_mb)


class NVMLError(Exception):
    """As the library's own."""


def nvml(**changed: Any) -> SimpleNamespace:
    """The part of NVIDIA's library that is read, of one card; there is none where tests run."""
    parts: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=97, memory=50),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=2**30),
    }
    return SimpleNamespace(**parts | changed)


def refused(*_: object) -> None:
    raise NVMLError("Driver Not Loaded")


def test_an_nvidia_card_beside_amds(host_of: Hosts) -> None:
    """Cards of both makers count together."""
    cards = Gpu(host_of("amd-desktop"), nvml()).read()
    assert (cards.busy, cards.vram_mb) == (0.97, 8192 + 100 + 1024)


def test_nvml_that_fails_is_a_reason(host_of: Hosts) -> None:
    """A library without its driver leaves null with what it said; one refused figure leaves the other."""
    cards = Gpu(host_of("virtual-machine"), nvml(nvmlInit=refused)).read()
    assert (cards.busy, cards.vram_mb) == (Absent("NVML: Driver Not Loaded"),) * 2
    cards = Gpu(host_of("virtual-machine"), nvml(nvmlDeviceGetMemoryInfo=refused)).read()
    assert cards.busy == 0.97
    assert isinstance(cards.vram_mb, Absent)


def test_an_nvidia_driver_without_the_package(host_of: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver is and the Python package is not, the reason names the package."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    machine = host_of("virtual-machine")
    driver = machine.path("proc/driver/nvidia/version")
    driver.parent.mkdir(parents=True)
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module")
    assert "nvidia-ml-py" in str(Gpu(machine).read().busy)
