"""Reads the facts of this host that `host_lines` judges. What is not told is None or absent."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import psutil

import pytest_ngram
from pytest_ngram.doctor.host_lines import Busy, Clock, Cores, Governor
from pytest_ngram.doctor.room_lines import Folder
from pytest_ngram.files import locked
from pytest_ngram.measure.alone import LOCK
from pytest_ngram.measure.sysfs import Absent, Machine, text

_WATCH_S = 1.0
_READINGS = 20_000
_CPU = "sys/devices/system/cpu"


def cores(root: Path) -> Cores:
    """Count what this process may use: its affinity, the cores that those threads lie on, its quota."""
    allowed = os.sched_getaffinity(0)
    places = {_siblings(root, cpu) for cpu in allowed}
    count = len(places) if None not in places else psutil.cpu_count(logical=False)
    return Cores(min(count, len(allowed)) if count else None, len(allowed), _quota(root))


def _siblings(root: Path, cpu: int) -> str | None:
    return text(root / f"{_CPU}/cpu{cpu}/topology/thread_siblings_list")


def _quota(root: Path) -> float | None:
    """`cpu.max` of the control group: microseconds in each period, or `max`."""
    found = re.fullmatch(r"(\d+) (\d+)", text(root / "sys/fs/cgroup/cpu.max") or "")
    return int(found[1]) / int(found[2]) if found and int(found[2]) else None


def governor(root: Path) -> Governor:
    """Read how the frequencies of the cores are set."""
    folders = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"))
    governors = [text(folder / "scaling_governor") for folder in folders]
    first = folders[0] if folders else root / f"{_CPU}/cpu0/cpufreq"
    return Governor(
        tuple(name for name in governors if name),
        text(first / "scaling_driver"),
        text(first / "energy_performance_preference"),
    )


def busy(cache: Path, machine: Machine) -> Busy:
    """Sleep a second, and say who ran meanwhile, this process left out.

    Args:
        cache: its lock tells whether another run measures.
        machine: this one; where it does not tell the time of all cores, that of the processes is added up.
    """
    before, all_before = _cpu_by_process(), machine.cpu_time()
    begin_s = time.monotonic()
    time.sleep(_WATCH_S)
    after, all_after = _cpu_by_process(), machine.cpu_time()
    elapsed_s = time.monotonic() - begin_s
    shares: dict[str, float] = {}
    own_s = 0.0
    for key, (name, used_s) in after.items():
        taken_s = used_s - before.get(key, (name, 0.0))[1]
        if key[0] == os.getpid():
            own_s = taken_s
        elif taken_s > 0:
            shares[name] = shares.get(name, 0.0) + taken_s / elapsed_s
    share = sum(shares.values()) / (psutil.cpu_count() or 1)
    if not isinstance(all_before, Absent) and not isinstance(all_after, Absent):
        share = (all_after.busy_s - all_before.busy_s - own_s) / (all_after.all_s - all_before.all_s)
        if all_after.steal_s > all_before.steal_s:
            stolen_s = all_after.steal_s - all_before.steal_s
            shares["(the host of this virtual machine)"] = stolen_s / elapsed_s
    return Busy(shares, share, _another_run(cache / LOCK))


def _cpu_by_process() -> dict[tuple[int, float], tuple[str, float]]:
    """Name and seconds of processor time, by process id and start: an id may be given anew."""
    found: dict[tuple[int, float], tuple[str, float]] = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        said = process.info
        if said["cpu_times"] is not None:
            used_s = said["cpu_times"].user + said["cpu_times"].system
            found[said["pid"], said["create_time"] or 0.0] = (said["name"] or "?", used_s)
    return found


def _another_run(lock: Path) -> bool:
    if not lock.exists():
        return False
    try:
        with locked(lock, 0.0):
            return False
    except TimeoutError:
        return True
    except OSError:  # not to be opened: told of the cache folder
        return False


def clock(root: Path) -> Clock:
    """Read the clock many times over."""
    begin_ns = time.monotonic_ns()
    readings = [time.monotonic_ns() for _ in range(_READINGS)]
    read_s = (time.monotonic_ns() - begin_ns) / 1e9 / _READINGS
    steps = [after - before for before, after in itertools.pairwise(readings)]
    forward = [step for step in steps if step > 0]
    return Clock(
        source=text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        step_s=min(forward) / 1e9 if forward else time.get_clock_info("monotonic").resolution,
        read_s=read_s,
        backwards=sum(step < 0 for step in steps),
        now_s=time.time(),
        installed_s=_changed_s(Path(pytest_ngram.__file__)),
    )


def swap() -> tuple[int, int]:
    """Return the swap in use and all there is, in bytes."""
    found = psutil.swap_memory()
    return found.used, found.total


def folder(path: Path, need_bytes: int = 0) -> Folder:
    """Try to write below the nearest folder that exists, leaving nothing there."""
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free: int | None = shutil.disk_usage(there).free
    except OSError as error:
        return Folder(str(path), f"{there}: {error.strerror or error}", None, need_bytes)
    return Folder(str(path), None, free, need_bytes)


def _changed_s(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
