"""The virtual clock: exact, forward only, and never spun on."""

from __future__ import annotations

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.measure.clock import VirtualClock


def test_a_duration_is_the_sum_of_the_advances_in_between() -> None:
    """What pytest-benchmark takes as a round's time is the request's seconds per token."""
    clock = VirtualClock()
    start = clock()
    clock.advance(0.25)
    assert clock() - start == 0.25


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan")])
def test_it_never_stands_still_on_purpose(step: float) -> None:
    """A request that took no time would rank as the fastest; it is refused."""
    with pytest.raises(ValueError, match="forward only"):
        VirtualClock().advance(step)


def test_a_calibration_loop_is_refused() -> None:
    """Reading without end, as a calibrated benchmark does, is an error that says what to call instead."""
    clock = VirtualClock()
    with pytest.raises(OptionError, match=r"benchmark\.pedantic"):
        [clock() for _ in range(100)]


def test_many_rounds_and_failed_cells_are_no_calibration() -> None:
    """Rounds reset the count, and so does the beginning of a cell, however many failed before."""
    clock = VirtualClock()
    for _ in range(100):
        clock()
        clock.advance(0.1)
        clock()
    for _ in range(100):
        clock.rest()
        clock()
