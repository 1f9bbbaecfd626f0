"""Rest before a server starts, and the state in which it meets the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_ngram.errors import OptionError
from pytest_ngram.measure.host import LEAST_S, available_bytes, last_pressure, this_machine
from pytest_ngram.measure.sysfs import Absent, CpuTime, Machine, known
from pytest_ngram.record import MIB, Entry

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Rest:
    """What is waited for before each server.

    Args:
        settle_s: this long in any case.
        max_temp_c: until it is no hotter than this; None does not wait for that.
        sensor: whose temperature; None takes the processor's.
        deadline_s: how long to wait for the temperature before the server is started hot.
    """

    settle_s: float = 0.0
    max_temp_c: float | None = None
    sensor: str | None = None
    deadline_s: float = 300.0


def check(rest: Rest, machine: Machine) -> None:
    """Raise `OptionError` if a temperature is to be waited for, or looked at, that no sensor tells."""
    if rest.max_temp_c is None and rest.sensor is None:
        return
    found = machine.temperature(rest.sensor)
    if isinstance(found, Absent):
        there = [f"{each.said}: {each.temp_c:.0f} °C" for each in machine.sensors()]
        raise OptionError(
            f"the temperature cannot be watched: {found}",
            checked=there or ["this machine tells no temperature at all (as virtual machines do)"],
            fix="name one of these with --ngram-temp-sensor"
            if there
            else "leave out --ngram-max-temp and --ngram-temp-sensor",
        )


def enter(
    rest: Rest,
    machine: Machine | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> Entry:
    """Wait as long as it takes, and return the state of the machine after that.

    Args:
        rest: what to wait for.
        machine: what to look at; None takes this one.
        sleep: waits so many seconds.
        now_s: a clock, in seconds.
    """
    machine = machine or this_machine()[0]
    begin_s, before = now_s(), machine.cpu_time()
    if rest.settle_s > 0:
        sleep(rest.settle_s)
    gave_up = _cool(rest, machine, sleep, now_s)
    waited_s = now_s() - begin_s
    absent: dict[str, str] = {}
    sensor = known("temp_c", machine.temperature(rest.sensor), absent)
    return Entry(
        load1=os.getloadavg()[0],
        busy=known("busy", _busy(before, machine.cpu_time(), waited_s), absent),
        pressure=known("pressure", last_pressure(machine.pressure_avg10()), absent),
        free_mb=available_bytes() / MIB,
        temp_c=sensor.temp_c if sensor is not None else None,
        temp_sensor=sensor.said if sensor is not None else None,
        waited_s=waited_s,
        gave_up=gave_up,
        absent=absent,
    )


def _cool(
    rest: Rest, machine: Machine, sleep: Callable[[float], None], now_s: Callable[[], float]
) -> str | None:
    """Wait until it is cool enough; return why that was given up, if it was."""
    if rest.max_temp_c is None:
        return None
    begin_s = now_s()
    while True:
        sensor = machine.temperature(rest.sensor)
        if isinstance(sensor, Absent):
            return str(sensor)
        if sensor.temp_c <= rest.max_temp_c:
            return None
        left_s = rest.deadline_s - (now_s() - begin_s)
        if left_s <= 0:
            hot = f"{sensor.said} is at {sensor.temp_c:.0f} °C, not {rest.max_temp_c:.0f} °C"
            return f"{hot}, after {rest.deadline_s:.0f} s"
        sleep(min(_LOOK_EVERY_S, left_s))


def _busy(before: CpuTime | Absent, after: CpuTime | Absent, waited_s: float) -> float | Absent:
    if isinstance(before, Absent) or isinstance(after, Absent):
        return before if isinstance(before, Absent) else Absent("/proc/stat cannot be read")
    if waited_s < LEAST_S or after.all_s <= before.all_s:
        return Absent("it was not waited for rest (--ngram-settle)")
    return (after.busy_s - before.busy_s) / (after.all_s - before.all_s)
