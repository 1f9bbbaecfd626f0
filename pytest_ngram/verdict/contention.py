"""Whether a number is of the engine alone: what else took the cores, and whether the machine was too hot."""

from __future__ import annotations

import msgspec

from pytest_ngram.record import Host, Record

OTHERS = 0.05  # of all cores' time, taken by other processes
STATEFUL = "its config keeps state between requests"  # why a cell is not measured again
LEAST_WAIT_MS = 5.0  # of a cell: threads that are woken wait for a core now and then on a quiet machine too
PRESSURE = 10.0  # percent of the time in which some task waited


class Bounds(msgspec.Struct, frozen=True):
    """From where on a cell is contended or throttled.

    Args:
        others: the share of all cores' time that others may take, 0 to 1.
        pressure: percent of the time in which tasks may wait, for cores, disks or memory each.
        temp_c: what the sensor may reach; None sets no bound.
    """

    others: float = OTHERS
    pressure: float = PRESSURE
    temp_c: float | None = None


class Marks(msgspec.Struct, frozen=True):
    """The reasons why a cell is contended or throttled; none of both on a quiet, cool machine.

    `severity` is the highest of what was seen ÷ its bound, to tell the quieter one of two.
    """

    contended: tuple[str, ...]
    throttled: tuple[str, ...]
    severity: float

    @property
    def any(self) -> bool:
        """Whether anything speaks against the number."""
        return bool(self.contended or self.throttled)


def marks(host: Host, bounds: Bounds) -> Marks:
    """Return what speaks against a number that was measured on this host. What is null speaks not."""
    contended, throttled, ratios = [], [], [0.0]
    if host.others_busy is not None:
        ratios.append(host.others_busy / bounds.others)
        if host.others_busy > bounds.others:
            stolen = f", {host.steal:.0%} by the hypervisor" if host.steal and host.steal >= 0.005 else ""
            contended.append(f"others took {host.others_busy:.0%} of the cores{stolen}")
    for what, percent in _pressures(host):
        ratios.append(percent / bounds.pressure)
        if percent >= bounds.pressure and _waited_ms(host, percent) >= LEAST_WAIT_MS:
            contended.append(f"tasks waited for {what} {percent:.0f} % of the time")
    if host.throttles:
        throttled.append(f"slowed down for heat {host.throttles} times")
        ratios.append(1.0 + host.throttles)
    if bounds.temp_c is not None and host.temp_c is not None:
        ratios.append(host.temp_c / bounds.temp_c)
        if host.temp_c > bounds.temp_c:
            throttled.append(f"{host.temp_sensor} reached {host.temp_c:.0f} °C")
    return Marks(tuple(contended), tuple(throttled), max(ratios))


def is_contended(record: Record) -> bool:
    """Whether others disturbed a cell; records from before this was judged tell by their pressure."""
    if record.disturbance is not None:
        return bool(record.disturbance.contended)
    return record.host is not None and (record.host.psi_cpu or 0.0) >= PRESSURE


def is_throttled(record: Record) -> bool:
    """Whether a cell was measured on a machine that was too hot."""
    return record.disturbance is not None and bool(record.disturbance.throttled)


def keeps_state(record: Record) -> bool:
    """Whether a disturbed cell was not measured again since its config keeps state."""
    return record.disturbance is not None and record.disturbance.not_repeated == STATEFUL


def _waited_ms(host: Host, percent: float) -> float:
    return percent * 10 * host.pressure.over_s if host.pressure is not None else 0.0


def _pressures(host: Host) -> list[tuple[str, float]]:
    pressure = host.pressure
    if pressure is None:
        return []
    told = (("cores", pressure.cpu), ("a disk", pressure.io), ("memory", pressure.memory))
    return [(what, percent) for what, percent in told if percent is not None]
