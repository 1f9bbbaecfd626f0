"""What the machine and the engine's process look like while a cell runs. Unknown is None."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, linear_regression
from typing import TypeVar

import psutil

from pytest_ngram.measure.gpu import Gpu
from pytest_ngram.measure.sampler import Counters, Sampler, Span, between, counters
from pytest_ngram.measure.sysfs import Absent, Machine, Sensor, known, text
from pytest_ngram.record import Host, Memory, Pressure

T = TypeVar("T")

_KIB = 1024
# The kernel counts processor time in ticks of 10 ms: under this time two of them a core are over 5 %.
LEAST_S = 0.4
AVG10_S = 10.0


def memory(pid: int | None, root: Path = Path("/")) -> Memory | None:
    """Resident memory and all major faults of a process, by the kernel; None where it is not ours."""
    if pid is None:
        return None
    status, stat = text(root / f"proc/{pid}/status"), text(root / f"proc/{pid}/stat")
    if status is None or stat is None:
        return None
    return Memory(
        rss_anon_mb=_status_mb(status, "RssAnon"),
        rss_file_mb=_status_mb(status, "RssFile"),
        rss_peak_mb=_status_mb(status, "VmHWM"),
        majflt=_major_faults(stat),
        swap_mb=_status_mb(status, "VmSwap"),
    )


def slope_mb(anon_mb: Sequence[float | None]) -> float | None:
    """Return how much a server gains by a request, from its anonymous memory after each, by least squares.

    Worked example: 100, 110, 120 MiB after three requests are 10 MiB a request. Null under three requests.
    """
    values = [value for value in anon_mb if value is not None]
    if len(values) < 3 or len(values) < len(anon_mb):
        return None
    return linear_regression(range(len(values)), values).slope


def _status_mb(status: str, key: str) -> float | None:
    found = re.search(rf"^{key}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / _KIB if found else None


def _major_faults(stat: str) -> int | None:
    """Field 12 of `/proc/PID/stat`; the name in brackets before it may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[9]) if len(fields) > 9 else None


class Probe:
    """Watches the machine and one process while requests run.

    Args:
        pid: the server's process; None where it is not known, as at a URL.
        machine: what to look at.
        gpu: its graphics cards.
        sensor: whose temperature; None takes the processor's.
    """

    def __init__(
        self, pid: int | None, machine: Machine, gpu: Gpu | None = None, sensor: str | None = None
    ) -> None:
        self._pid = pid
        self._machine = machine
        self._gpu = gpu or Gpu(machine)
        self._sensor = sensor

    def watch(self, work: Callable[[], T]) -> tuple[T, Span]:
        """Do some work and return what it returns, with what the machine did meanwhile."""
        before = self._counters()
        sampler = Sampler(self._machine, self._gpu, self._sensor)
        sampler.start()
        try:
            done = work()
        finally:
            sampled = sampler.stop()
        return done, between(before, self._counters(), sampled)

    def temperature(self) -> Sensor | Absent:
        """Return the temperature now."""
        return self._machine.temperature(self._sensor)

    def host(self, span: Span, before: Sensor | Absent) -> Host:
        """Return the machine during a span; `before` is the temperature before it."""
        absent: dict[str, str] = {}
        cpu, cores, isa = processor()
        freq = known("freq_mhz", self._machine.freq_mhz(), absent)
        sensor = known("temp_c", self.temperature(), absent)
        temps = [*span.sampled.temp_c, *([sensor.temp_c] if sensor is not None else [])]
        cards = self._gpu.read()
        vram_mb, gtt_mb = known("vram_mb", cards.vram_mb, absent), known("gtt_mb", cards.gtt_mb, absent)
        avg10 = self._machine.pressure_avg10()
        shares = self._shares(span, absent)
        return Host(
            cpu=cpu,
            cores=cores,
            isa=isa,
            load1=os.getloadavg()[0],
            psi_cpu=avg10.get("cpu"),
            cpu_busy=shares.get("cpu_busy"),
            gpu_busy=known("gpu_busy", _gpu_busy(span, cards.busy), absent),
            vram_mb=max([*span.sampled.vram_mb, vram_mb]) if vram_mb is not None else None,
            temp_c=max(temps, default=None),
            governor=known("governor", self._machine.governor(), absent),
            seconds=span.seconds,
            server_busy=shares.get("server_busy"),
            own_busy=shares.get("own_busy"),
            others_busy=shares.get("others_busy"),
            steal=shares.get("steal"),
            pressure=known("pressure", pressure_of(span), absent),
            freq_mhz=fmean(span.sampled.freq_mhz or freq[:1]) if freq is not None else None,
            freq_min_mhz=min([*span.sampled.freq_min_mhz, freq[1]]) if freq is not None else None,
            temp_sensor=sensor.said if sensor is not None else None,
            temp_before_c=before.temp_c if isinstance(before, Sensor) else None,
            throttles=known("throttles", _throttles(span, self._machine.throttles()), absent),
            gtt_mb=max([*span.sampled.gtt_mb, gtt_mb]) if gtt_mb is not None else None,
            on_battery=known("on_battery", self._machine.on_battery(), absent),
            samples=span.sampled.samples,
            probe_share=span.sampled.cost_s / span.seconds if span.seconds > 0 else None,
            absent=absent,
        )

    def memory(self, span: Span, tokens: int, anon_mb: Sequence[float | None]) -> Memory | None:
        """Return the server's memory now, with its faults in a span of so many generated tokens.

        Args:
            span: what the faults are of.
            tokens: generated in it.
            anon_mb: the anonymous memory after each request that the server has answered.
        """
        now = memory(self._pid, self._machine.path(""))
        if now is None:
            return None
        per_token = span.majflt / tokens if span.majflt is not None and tokens else None
        return Memory(
            rss_anon_mb=now.rss_anon_mb,
            rss_file_mb=now.rss_file_mb,
            rss_peak_mb=now.rss_peak_mb,
            majflt=span.majflt,
            swap_mb=now.swap_mb,
            majflt_per_token=per_token,
            anon_slope_mb=slope_mb(anon_mb),
        )

    def anon_mb(self) -> float | None:
        """Return the server's anonymous memory now, in MiB."""
        now = memory(self._pid, self._machine.path(""))
        return now.rss_anon_mb if now is not None else None

    def _counters(self) -> Counters:
        now = memory(self._pid, self._machine.path(""))
        return counters(self._machine, self._pid, now.majflt if now is not None else None)

    def _shares(self, span: Span, absent: dict[str, str]) -> dict[str, float]:
        """Shares of all cores' time; what cannot be told is missing, and its reason is noted."""
        if span.busy_s is None or not span.all_s:
            absent["cpu_busy"] = absent["others_busy"] = "/proc/stat cannot be read"
            return {}
        if span.seconds < LEAST_S:
            short = f"{span.seconds:.2f} s is too short for the kernel's ticks of 10 ms"
            for name in ("cpu_busy", "server_busy", "own_busy", "others_busy", "steal"):
                absent[name] = short
            return {}
        shares = {"cpu_busy": span.busy_s, "steal": span.steal_s or 0.0, "own_busy": span.own_s}
        if span.server_s is None:
            absent["server_busy"] = absent["others_busy"] = "the server's process is not known here"
        else:
            shares["server_busy"] = span.server_s
            shares["others_busy"] = max(0.0, span.busy_s - span.server_s - span.own_s)
        return {name: min(1.0, seconds / span.all_s) for name, seconds in shares.items()}


def pressure_of(span: Span) -> Pressure | Absent:
    """Return the pressure in a span: the kernel counts it in microseconds, so a short one tells too."""
    if not span.wait_us:
        return Absent("the kernel tells no pressure (/proc/pressure)")
    percent = {name: us / 1e4 / span.seconds for name, us in span.wait_us.items()}
    return Pressure(percent.get("cpu"), percent.get("io"), percent.get("memory"), span.seconds)


def last_pressure(avg10: dict[str, float]) -> Pressure | Absent:
    """Return the pressure of the last 10 s."""
    if not avg10:
        return Absent("the kernel tells no pressure (/proc/pressure)")
    return Pressure(avg10.get("cpu"), avg10.get("io"), avg10.get("memory"), AVG10_S)


def _gpu_busy(span: Span, now: float | Absent) -> float | Absent:
    if span.sampled.gpu_busy:
        return fmean(span.sampled.gpu_busy)
    return now if isinstance(now, Absent) else Absent("the requests were shorter than a sample")


def _throttles(span: Span, now: int | Absent) -> int | Absent:
    if span.throttles is not None:
        return span.throttles
    return now if isinstance(now, Absent) else Absent("the count was not there throughout")


@functools.cache
def this_machine() -> tuple[Machine, Gpu]:
    """Return the machine that this runs on, and its graphics cards, found once."""
    machine = Machine()
    return machine, Gpu(machine)


def available_bytes() -> int:
    """Memory to be had without swapping, by the kernel and by the limit of the cgroup, if any."""
    free: int = psutil.virtual_memory().available
    limit, used = text(Path("/sys/fs/cgroup/memory.max")), text(Path("/sys/fs/cgroup/memory.current"))
    if limit and used and limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


@functools.cache
def processor() -> tuple[str | None, int | None, tuple[str, ...] | None]:
    """Return the processor's name, the number of logical cores, and which instruction sets it has."""
    info = text(Path("/proc/cpuinfo")) or ""
    name = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", info, re.MULTILINE)
    wanted = (
        "sse4_2",
        "avx",
        "f16c",
        "fma",
        "bmi2",
        "avx2",
        "avx_vnni",
        "avx512f",
        "avx512_vnni",
        "amx_int8",
    )
    isa = tuple(flag for flag in wanted if flag in flags[1].split()) if flags else None
    return (name[1] if name else None), psutil.cpu_count(logical=True), isa
