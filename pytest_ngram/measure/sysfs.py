"""What the kernel tells of the machine in `/proc` and `/sys`, with the reason where it does not tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pytest_ngram.record import MIB

T = TypeVar("T")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROCESSOR = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "x86_pkg_temp", "cpu-thermal")
_BATTERY = "battery"
# Fields of the line `cpu` of /proc/stat that are neither idle nor waiting for a disk; the guests' time
# is within user and nice.
_BUSY = (0, 1, 2, 5, 6, 7)
_STEAL = 7


class Absent(str):
    """The reason why something is not known."""

    __slots__ = ()


def known(name: str, value: T | Absent, absent: dict[str, str]) -> T | None:
    """Return the value; None where it is not known, and then the reason is noted under the name."""
    if isinstance(value, Absent):
        absent[name] = str(value)
        return None
    return value


@dataclass(frozen=True)
class CpuTime:
    """Seconds of all cores since the machine started: busy (steal counted in), steal, and all there was."""

    busy_s: float
    steal_s: float
    all_s: float


@dataclass(frozen=True)
class Sensor:
    """A temperature: the name of its chip or zone, its own label, degrees Celsius, and where it is read."""

    name: str
    label: str
    temp_c: float
    path: Path

    @property
    def said(self) -> str:
        """Its name, with the label where there is one."""
        return f"{self.name} {self.label}" if self.label else self.name


class Machine:
    """A machine, read under a root; another one than `/` holds what was recorded of another machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._freqs: list[Path] | None = None
        self._throttles: list[Path] | None = None
        self._sensors: dict[str | None, list[Sensor]] = {}
        self.cards = sorted(
            path / "device"
            for path in self._glob("sys/class/drm/card*")
            if re.fullmatch(r"card\d+", path.name)
        )

    def path(self, inside: str) -> Path:
        """Return a path under the root."""
        return self._root / inside

    def cpu_time(self) -> CpuTime | Absent:
        """Return the time of all cores, from `/proc/stat`."""
        line = (text(self.path("proc/stat")) or "").partition("\n")[0].split()
        if len(line) < 9 or line[0] != "cpu":
            return Absent("/proc/stat cannot be read")
        fields = [int(field) / _TICKS_PER_S for field in line[1:9]]
        return CpuTime(sum(fields[i] for i in _BUSY), fields[_STEAL], sum(fields))

    def process_s(self, pid: int) -> dict[int, float]:
        """Return the processor seconds of a process and of those that it started, by process id.

        A process that has ended is left out.
        """
        found: dict[int, float] = {}
        left = [pid]
        while left:
            each = left.pop()
            folder = self.path(f"proc/{each}")
            # the name in brackets may hold spaces and brackets
            fields = (text(folder / "stat") or "").rpartition(")")[2].split()
            if each in found or len(fields) < 13:
                continue
            found[each] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
            for children in folder.glob("task/*/children"):
                left += map(int, (text(children) or "").split())
        return found

    def pressure_us(self) -> dict[str, int]:
        """Return, of cpu, io and memory, the microseconds in which some task waited, since the start."""
        return {name: int(value) for name, value in self._pressure("total", r"\d+").items()}

    def pressure_avg10(self) -> dict[str, float]:
        """Return, of cpu, io and memory, the percent of the last 10 s in which some task waited."""
        return {name: float(value) for name, value in self._pressure("avg10", r"[\d.]+").items()}

    def temperature(self, sensor: str | None = None) -> Sensor | Absent:
        """Return the hottest sensor of the processor, or of those of a name.

        Args:
            sensor: a chip (`k10temp`), a chip and label (`coretemp Core 0`), a thermal zone, a power supply
                (`BAT0`), or `battery`.
        """
        if sensor not in self._sensors:
            self._sensors[sensor] = _matching(self.sensors(), sensor)
        now = [
            Sensor(each.name, each.label, temp_c, each.path)
            for each in self._sensors[sensor]
            if (temp_c := _degrees(each.path)) is not None
        ]
        if now:
            return max(now, key=lambda each: each.temp_c)
        return Absent(f"no sensor {sensor}" if sensor else "no sensor of the processor")

    def sensors(self) -> list[Sensor]:
        """Return all temperatures: of the chips, then of thermal zones, then of power supplies."""
        places = [
            *(
                (
                    text(path.parent / "name"),
                    text(path.with_name(path.name.replace("_input", "_label"))),
                    path,
                )
                for path in self._glob("sys/class/hwmon/hwmon*/temp*_input")
            ),
            *(
                (text(path.parent / "type"), "", path)
                for path in self._glob("sys/class/thermal/thermal_zone*/temp")
            ),
            *((path.parent.name, _BATTERY, path) for path in self._glob("sys/class/power_supply/*/temp")),
        ]
        return [
            Sensor(name or path.parent.name, label or "", temp_c, path)
            for name, label, path in places
            if (temp_c := _degrees(path)) is not None
        ]

    def freq_mhz(self) -> tuple[float, float] | Absent:
        """Return the mean and the lowest clock of all cores, in MHz."""
        if self._freqs is None:
            self._freqs = self._glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
        khz = [int(value) for path in self._freqs if (value := text(path)) and value.isdigit()]
        mhz = [value / 1000 for value in khz]
        if not mhz and not self._freqs:
            info = text(self.path("proc/cpuinfo")) or ""
            mhz = [float(value) for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", info, re.MULTILINE)]
        return (sum(mhz) / len(mhz), min(mhz)) if mhz else Absent("the kernel tells no clock of the cores")

    def governor(self) -> str | Absent:
        """Return what chooses the clock of the first core."""
        found = text(self.path("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
        return found or Absent("no cpufreq in the kernel, as in most virtual machines")

    def throttles(self) -> int | Absent:
        """Return how often cores and packages were slowed down for heat since the machine started."""
        if self._throttles is None:
            self._throttles = self._glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")
        counts = [int(value) for path in self._throttles if (value := text(path)) and value.isdigit()]
        return sum(counts) if counts else Absent("the processor does not count it (Intel's do)")

    def on_battery(self) -> bool | Absent:
        """Return whether a battery is being discharged."""
        supplies = self._glob("sys/class/power_supply/*/type")
        batteries = [path.parent for path in supplies if text(path) == "Battery"]
        # a mouse's battery is no supply of the machine
        own = [path for path in batteries if text(path / "scope") != "Device"]
        if not own:
            return Absent("no battery")
        return any(text(path / "status") == "Discharging" for path in own)

    def _pressure(self, key: str, form: str) -> dict[str, str]:
        found = {}
        for name in ("cpu", "io", "memory"):
            line = text(self.path(f"proc/pressure/{name}")) or ""
            match = re.search(rf"^some .*\b{key}=({form})", line, re.MULTILINE)
            if match:
                found[name] = match[1]
        return found

    def _glob(self, pattern: str) -> list[Path]:
        return sorted(self._root.glob(pattern))


def amd_busy(cards: Iterable[Path]) -> float | None:
    """Return how busy the busiest of amdgpu's cards is at this moment, 0 to 1; None where none tells."""
    found = [int(value) for card in cards if (value := text(card / "gpu_busy_percent")) and value.isdigit()]
    return max(found) / 100 if found else None


def amd_memory_mb(cards: Iterable[Path], kind: str) -> float | None:
    """Return what amdgpu's cards use together, in MiB: their own (`vram`) or the system's (`gtt`)."""
    names = (card / f"mem_info_{kind}_used" for card in cards)
    found = [int(value) for name in names if (value := text(name)) and value.isdigit()]
    return sum(found) / MIB if found else None


def text(path: Path) -> str | None:
    """Return what is in a file, without space around it; None where it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _matching(sensors: list[Sensor], wanted: str | None) -> list[Sensor]:
    if wanted is None:
        found = [each for each in sensors if each.name in _PROCESSOR]
        chips = [each for each in found if "hwmon" in each.path.parts]
        return chips or found
    return [each for each in sensors if wanted in (each.name, each.said, each.label)]


def _degrees(path: Path) -> float | None:
    """Thousandths of a degree, but tenths where a power supply tells; it may refuse while it sleeps."""
    value = text(path)
    try:
        number = int(value or "")
    except ValueError:
        return None
    return number / (10 if path.parent.parent.name == "power_supply" else 1000)
