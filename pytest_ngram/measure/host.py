"""What the machine and the engine's process look like while a cell runs. Unknown is None."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import psutil
from msgspec.structs import replace

from pytest_ngram.record import Host, Memory

_KIB = 1024


def memory(pid: int | None) -> Memory | None:
    """Resident memory and all major faults of a process, by the kernel; None where it is not ours."""
    if pid is None:
        return None
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return Memory(
        rss_anon_mb=_status_mb(status, "RssAnon"),
        rss_file_mb=_status_mb(status, "RssFile"),
        rss_peak_mb=_status_mb(status, "VmHWM"),
        majflt=_major_faults(stat),
    )


def _faults_since(before: Memory | None, after: Memory | None) -> Memory | None:
    if after is None or before is None or after.majflt is None or before.majflt is None:
        return after
    return replace(after, majflt=after.majflt - before.majflt)


def _status_mb(status: str, key: str) -> float | None:
    found = re.search(rf"^{key}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / _KIB if found else None


def _major_faults(stat: str) -> int | None:
    """Field 12 of `/proc/PID/stat`; the name in brackets before it may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[9]) if len(fields) > 9 else None


class CellProbe:
    """Watches the machine and one process from the moment it is made until each `read`."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._cpu_before = psutil.cpu_times()
        self._memory_before = memory(pid)

    def read(self) -> tuple[Host, Memory | None]:
        """Return host and memory; shares and major faults are of the time since the probe was made."""
        after = memory(self._pid)
        return self._host(), _faults_since(self._memory_before, after)

    def _host(self) -> Host:
        cpu, cores, isa = processor()
        return Host(
            cpu=cpu,
            cores=cores,
            isa=isa,
            load1=os.getloadavg()[0],
            psi_cpu=_pressure(),
            cpu_busy=_busy_share(self._cpu_before, psutil.cpu_times()),
            gpu_busy=None,  # the card is idle again by now
            vram_mb=_vram_mb(),
            temp_c=_temperature(),
            governor=_text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        )


def available_bytes() -> int:
    """Memory to be had without swapping, by the kernel and by the limit of the cgroup, if any."""
    free: int = psutil.virtual_memory().available
    limit, used = _text(Path("/sys/fs/cgroup/memory.max")), _text(Path("/sys/fs/cgroup/memory.current"))
    if limit and used and limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


@functools.cache
def processor() -> tuple[str | None, int | None, tuple[str, ...] | None]:
    """Return the processor's name, the number of logical cores, and which instruction sets it has."""
    info = _text(Path("/proc/cpuinfo")) or ""
    name = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", info, re.MULTILINE)
    known = ("sse4_2", "avx", "f16c", "fma", "bmi2", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8")
    isa = tuple(flag for flag in known if flag in flags[1].split()) if flags else None
    return (name[1] if name else None), psutil.cpu_count(logical=True), isa


def _busy_share(before: object, after: object) -> float | None:
    """Share of all cores' time, 0 to 1, that was neither idle nor waiting for a disk."""

    def split(times: object) -> tuple[float, float]:
        idle = getattr(times, "idle", 0.0) + getattr(times, "iowait", 0.0)
        names = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait")
        return idle, sum(getattr(times, name, 0.0) for name in names)

    (idle_before, all_before), (idle_after, all_after) = split(before), split(after)
    elapsed = all_after - all_before
    return None if elapsed <= 0 else 1 - (idle_after - idle_before) / elapsed


def _pressure() -> float | None:
    """The kernel's 10-second average of the time in which some task waited for a core, in percent."""
    found = re.search(r"^some avg10=([\d.]+)", _text(Path("/proc/pressure/cpu")) or "", re.MULTILINE)
    return float(found[1]) if found else None


def _vram_mb() -> float | None:
    """Of the first graphics card whose driver tells (amdgpu does); None elsewhere."""
    for path in sorted(Path("/sys/class/drm").glob("card*/device/mem_info_vram_used")):
        value = _text(path)
        if value and value.isdigit():
            return int(value) / _KIB / _KIB
    return None


def _temperature() -> float | None:
    """The hottest sensor of the processor, in degrees Celsius."""
    for name, sensors in psutil.sensors_temperatures().items():
        if name in ("coretemp", "k10temp", "zenpower", "cpu_thermal") and sensors:
            return max(float(sensor.current) for sensor in sensors)
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
