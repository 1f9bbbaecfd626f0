"""Watches the machine while a request runs: counters before and after, and a thread that samples between."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from pytest_ngram.measure.gpu import Gpu
from pytest_ngram.measure.sysfs import Absent, CpuTime, Machine

INTERVAL_S = 0.1
# The thread takes at most this share of a core: where looking costs more, it looks less often.
MOST_SHARE = 0.008


@dataclass(frozen=True)
class Counters:
    """What only grows, at one moment. Times in seconds, pressure in microseconds."""

    at_s: float
    cpu: CpuTime | Absent
    server_s: dict[int, float] | None
    own_s: float
    pressure_us: dict[str, int]
    throttles: int | Absent
    majflt: int | None


@dataclass(frozen=True)
class Sampled:
    """What the thread saw: lists of one value a sample, but only of what the machine tells."""

    temp_c: tuple[float, ...] = ()
    freq_mhz: tuple[float, ...] = ()
    freq_min_mhz: tuple[float, ...] = ()
    gpu_busy: tuple[float, ...] = ()
    vram_mb: tuple[float, ...] = ()
    gtt_mb: tuple[float, ...] = ()
    samples: int = 0
    cost_s: float = 0.0

    def __add__(self, other: Sampled) -> Sampled:
        """Return both one after the other."""
        return Sampled(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Span:
    """What was counted and seen while a request ran, or several of them.

    Seconds of all cores: `busy_s`, of which `steal_s`, `server_s` and `own_s`; `all_s` is what there was.
    `wait_us` are the microseconds in which some task waited, of cpu, io and memory. None is not known.
    """

    seconds: float
    busy_s: float | None
    steal_s: float | None
    all_s: float | None
    server_s: float | None
    own_s: float
    wait_us: dict[str, int]
    throttles: int | None
    majflt: int | None
    sampled: Sampled = field(default_factory=Sampled)

    def __add__(self, other: Span) -> Span:
        """Return both together: what is not known of one is not known of both."""
        return Span(
            seconds=self.seconds + other.seconds,
            busy_s=_sum(self.busy_s, other.busy_s),
            steal_s=_sum(self.steal_s, other.steal_s),
            all_s=_sum(self.all_s, other.all_s),
            server_s=_sum(self.server_s, other.server_s),
            own_s=self.own_s + other.own_s,
            wait_us={
                name: self.wait_us[name] + other.wait_us[name]
                for name in self.wait_us.keys() & other.wait_us.keys()
            },
            throttles=_sum_int(self.throttles, other.throttles),
            majflt=_sum_int(self.majflt, other.majflt),
            sampled=self.sampled + other.sampled,
        )


def counters(machine: Machine, pid: int | None, majflt: int | None) -> Counters:
    """Return the counters now; `pid` is the server's, None where that is not known."""
    return Counters(
        at_s=time.monotonic(),
        cpu=machine.cpu_time(),
        server_s=machine.process_s(pid) if pid is not None else None,
        own_s=time.process_time(),
        pressure_us=machine.pressure_us(),
        throttles=machine.throttles(),
        majflt=majflt,
    )


def between(before: Counters, after: Counters, sampled: Sampled) -> Span:
    """Return what was counted from one moment to another."""
    both = None
    if not isinstance(before.cpu, Absent) and not isinstance(after.cpu, Absent):
        both = before.cpu, after.cpu
    pressure = before.pressure_us.keys() & after.pressure_us.keys()
    throttles = None
    if not isinstance(before.throttles, Absent) and not isinstance(after.throttles, Absent):
        throttles = after.throttles - before.throttles
    return Span(
        seconds=after.at_s - before.at_s,
        busy_s=both[1].busy_s - both[0].busy_s if both else None,
        steal_s=both[1].steal_s - both[0].steal_s if both else None,
        all_s=both[1].all_s - both[0].all_s if both else None,
        server_s=_server_s(before.server_s, after.server_s),
        own_s=after.own_s - before.own_s,
        wait_us={name: after.pressure_us[name] - before.pressure_us[name] for name in pressure},
        throttles=throttles,
        majflt=None if before.majflt is None or after.majflt is None else after.majflt - before.majflt,
        sampled=sampled,
    )


class Sampler:
    """Samples in a thread of its own from `start` to `stop`, ten times a second.

    Args:
        machine: what to look at.
        gpu: its graphics cards.
        sensor: whose temperature; None takes the processor's.
    """

    def __init__(self, machine: Machine, gpu: Gpu, sensor: str | None = None) -> None:
        self._machine = machine
        self._gpu = gpu
        self._sensor = sensor
        self._end = threading.Event()
        self._seen: dict[str, list[float]] = {}
        self._samples = 0
        self._cost_s = 0.0
        self._thread = threading.Thread(target=self._run, name="ngram-sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> Sampled:
        """End the thread and return what it saw. Safe to call twice."""
        self._end.set()
        self._thread.join()
        return Sampled(
            **{name: tuple(values) for name, values in self._seen.items()},
            samples=self._samples,
            cost_s=self._cost_s,
        )

    def _run(self) -> None:
        wait_s = INTERVAL_S
        while not self._end.wait(wait_s):
            self._look()
            self._cost_s = time.thread_time()
            wait_s = max(INTERVAL_S, self._cost_s / self._samples / MOST_SHARE)

    def _look(self) -> None:
        sensor, freq, cards = (
            self._machine.temperature(self._sensor),
            self._machine.freq_mhz(),
            self._gpu.read(),
        )
        seen = {
            "temp_c": sensor if isinstance(sensor, Absent) else sensor.temp_c,
            "freq_mhz": freq if isinstance(freq, Absent) else freq[0],
            "freq_min_mhz": freq if isinstance(freq, Absent) else freq[1],
            "gpu_busy": cards.busy,
            "vram_mb": cards.vram_mb,
            "gtt_mb": cards.gtt_mb,
        }
        for name, value in seen.items():
            if not isinstance(value, Absent):
                self._seen.setdefault(name, []).append(value)
        self._samples += 1


def _server_s(before: dict[int, float] | None, after: dict[int, float] | None) -> float | None:
    """What the server's processes took; None where one has ended meanwhile, whose last part is not known."""
    if before is None or not after or not before.keys() <= after.keys():
        return None
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _sum_int(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
