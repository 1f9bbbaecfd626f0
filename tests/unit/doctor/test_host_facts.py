"""Facts read from a tree as /sys and /proc have it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pytest_ngram.doctor import host_facts
from pytest_ngram.doctor.host_lines import Governor
from pytest_ngram.measure.sysfs import Machine


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_threads_of_one_core_are_counted_once(tmp_path: Path) -> None:
    """Siblings share a core; what counts are the threads that this process may run on."""
    allowed = sorted(os.sched_getaffinity(0))
    everybody = f"{allowed[0]}-{allowed[-1]}\n"
    for cpu in allowed:
        write(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": everybody})
    found = host_facts.cores(tmp_path)
    assert (found.cores, found.threads, found.quota) == (1, len(allowed), None)


def test_quota_of_the_control_group(tmp_path: Path) -> None:
    """`cpu.max` is microseconds in a period; `max` is no quota."""
    write(tmp_path, {"sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert host_facts.cores(tmp_path).quota == 1.5
    write(tmp_path, {"sys/fs/cgroup/cpu.max": "max 100000\n"})
    assert host_facts.cores(tmp_path).quota is None


def test_governor_of_each_core(tmp_path: Path) -> None:
    """All governors are read, with the driver and what it prefers; nothing told is nothing."""
    assert host_facts.governor(tmp_path) == Governor()
    for cpu, name in enumerate(("powersave", "performance")):
        folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        write(
            tmp_path,
            {
                f"{folder}/scaling_governor": f"{name}\n",
                f"{folder}/scaling_driver": "intel_pstate\n",
                f"{folder}/energy_performance_preference": "power\n",
            },
        )
    assert host_facts.governor(tmp_path) == Governor(("powersave", "performance"), "intel_pstate", "power")


def test_who_is_busy(tmp_path: Path) -> None:
    """The share is of all cores, the names of one; without the cores' own time the processes are added up."""
    cores = psutil.cpu_count() or 1
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as loop:
        try:
            here, bare = (host_facts.busy(tmp_path, machine) for machine in (Machine(), Machine(tmp_path)))
        finally:
            loop.kill()
    assert bare.share == pytest.approx(sum(bare.by_name.values()) / cores)
    for found in (here, bare):
        assert 0 < found.share <= 1.1
        assert max(found.by_name.values()) > 0.02
        assert not found.another_run


def test_clock_source(tmp_path: Path) -> None:
    """The source is the kernel's word; readings of this host's clock take time and never go backwards."""
    write(tmp_path, {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"})
    found = host_facts.clock(tmp_path)
    assert (found.source, found.backwards) == ("hpet", 0)
    assert found.read_s > 0
    assert found.step_s > 0
    assert found.installed_s is not None
    assert found.installed_s < found.now_s


def test_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    """A folder that is yet to be made is tried at the one above; a file in its place is a problem."""
    found = host_facts.folder(tmp_path / "a" / "b", 7)
    assert (found.problem, found.need_bytes) == (None, 7)
    assert found.free_bytes is not None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert "Not a directory" in (host_facts.folder(tmp_path / "file" / "cache").problem or "")
