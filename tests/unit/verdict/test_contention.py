"""When a cell is contended or throttled, from what was seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_ngram.record import Cell, Disturbance, Host, Outcome, Pressure, Record
from pytest_ngram.verdict.contention import Bounds, is_contended, is_throttled, keeps_state, marks

UNSEEN = Host(
    cpu=None,
    cores=2,
    isa=None,
    load1=None,
    psi_cpu=None,
    cpu_busy=None,
    gpu_busy=None,
    vram_mb=None,
    temp_c=None,
    governor=None,
)
CALM = Pressure(cpu=0.4, io=0.1, memory=0.0, over_s=2.0)


def host(**seen: Any) -> Host:
    return msgspec.structs.replace(UNSEEN, **seen)


# Two cores and a server of one thread: alone; beside a loop in another process; beside two of them, when the
# server waits too; and in a virtual machine whose host was busy.
QUIET = host(cpu_busy=0.52, server_busy=0.495, own_busy=0.006, others_busy=0.019, steal=0.0, pressure=CALM)
SPINNER = host(cpu_busy=0.99, server_busy=0.48, own_busy=0.006, others_busy=0.504, pressure=CALM)
CROWDED = host(
    cpu_busy=1.0,
    server_busy=0.3,
    others_busy=0.69,
    pressure=Pressure(cpu=78.0, io=0.0, memory=0.0, over_s=2.0),
)
STOLEN = host(cpu_busy=0.6, server_busy=0.45, others_busy=0.14, steal=0.11, pressure=CALM)


def test_a_quiet_machine_has_no_mark() -> None:
    """A server that has a machine to itself is not contended, whatever it takes itself."""
    assert not marks(QUIET, Bounds()).any


@pytest.mark.parametrize(
    ("seen", "reasons"),
    [
        (SPINNER, ("others took 50% of the cores",)),
        (CROWDED, ("others took 69% of the cores", "tasks waited for cores 78 % of the time")),
        (STOLEN, ("others took 14% of the cores, 11% by the hypervisor",)),
        (host(pressure=Pressure(cpu=None, io=30.0, memory=12.0, over_s=1.0)), 2),
    ],
)
def test_others_make_a_cell_contended(seen: Host, reasons: tuple[str, ...] | int) -> None:
    """Each reason names what was taken or waited for, and how much."""
    found = marks(seen, Bounds())
    assert found.throttled == ()
    assert reasons in (found.contended, len(found.contended))
    assert found.severity > 1


def test_what_is_not_known_speaks_not() -> None:
    """Nulls are neither 0 nor a mark."""
    assert marks(UNSEEN, Bounds(temp_c=50)) == marks(UNSEEN, Bounds())
    assert not marks(UNSEEN, Bounds(temp_c=50)).any


def test_bounds_are_the_users() -> None:
    """A wider bound takes a mark away, a narrower one brings it."""
    assert not marks(SPINNER, Bounds(others=0.6)).any
    assert marks(QUIET, Bounds(others=0.01)).contended
    assert marks(QUIET, Bounds(pressure=0.2)).contended


def test_a_moment_of_waiting_is_no_contention() -> None:
    """Threads that are woken wait for a core now and then: 2 ms of 15 are no mark, 200 of 1500 are."""
    share = 100 * 2 / 15
    assert not marks(host(pressure=Pressure(share, 0.0, 0.0, 0.015)), Bounds()).any
    assert marks(host(pressure=Pressure(share, 0.0, 0.0, 1.5)), Bounds()).contended


def test_heat_makes_a_cell_throttled() -> None:
    """By the kernel's count of slow-downs, or by a bound of the user's; without one no heat is too much."""
    hot = host(temp_c=92.0, temp_sensor="k10temp Tctl")
    assert not marks(hot, Bounds()).any
    assert marks(hot, Bounds(temp_c=85)).throttled == ("k10temp Tctl reached 92 °C",)
    assert marks(host(throttles=3), Bounds()).throttled == ("slowed down for heat 3 times",)
    assert not marks(host(throttles=0), Bounds()).any


def test_a_quieter_machine_is_less_severe() -> None:
    """Of two disturbed requests the one that is kept is told by its severity."""
    assert (
        marks(QUIET, Bounds()).severity < marks(STOLEN, Bounds()).severity < marks(CROWDED, Bounds()).severity
    )


def a_record(disturbance: Disturbance | None, psi_cpu: float | None) -> Record:
    return Record(
        cell=Cell("m", "none", "p", "s", 0.0, 1, "first", 0),
        model=None,
        engine=None,
        server=None,
        rounds=(),
        memory=None,
        host=host(psi_cpu=psi_cpu),
        table=None,
        disturbance=disturbance,
        outcome=Outcome("ok"),
    )


def test_older_records_tell_by_their_pressure() -> None:
    """Where a record was judged its judgement holds; before, 10 % of the kernel's average was the bound."""
    assert is_contended(a_record(None, 25.0))
    assert not is_contended(a_record(None, 5.0))
    assert not is_contended(a_record(Disturbance(), 25.0))
    assert is_contended(a_record(Disturbance(contended=("x",)), None))
    assert not is_throttled(a_record(None, 25.0))
    assert is_throttled(a_record(Disturbance(throttled=("x",)), None))
    assert not keeps_state(a_record(Disturbance(contended=("x",), not_repeated="2 repeats"), None))
