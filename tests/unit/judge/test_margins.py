"""How far a change that must not matter moves a lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.judge.margins import bound, largest_shift
from pytest_ngram.judge.types import Margin

leads = st.lists(st.floats(0, 5), min_size=1, max_size=6)


def test_worked_example() -> None:
    """The example of the docstring: a sign change counts whole."""
    base = [Margin(7, 8, 2.0), Margin(7, 8, 0.5), Margin(7, 8, 0.1)]
    changed = [Margin(7, 8, 2.0), Margin(7, 8, 0.4), Margin(8, 7, 0.2)]
    assert largest_shift(base, changed) == pytest.approx(0.3)


def test_after_a_flip_nothing_counts() -> None:
    """Behind a flip stands another text, whose leads say nothing about rounding."""
    base = [Margin(7, 8, 0.1), Margin(1, 2, 4.0)]
    changed = [Margin(8, 7, 0.1), Margin(1, 2, 1.0)]
    assert largest_shift(base, changed) == pytest.approx(0.2)


def test_another_runner_up_is_left_out() -> None:
    """A lead over another token is another number."""
    assert largest_shift([Margin(7, 8, 2.0)], [Margin(7, 9, 1.0)]) == 0.0


def test_a_lead_below_0_moves_no_bound() -> None:
    """A token that was not the likeliest tells nothing of rounding, and so excuses no difference."""
    assert largest_shift([Margin(7, 8, 2.0)], [Margin(7, 8, -1.0)]) == 0.0
    assert largest_shift([Margin(7, 8, -2.0)], [Margin(8, 7, 1.0)]) == 0.0
    assert (
        largest_shift([Margin(7, 8, -2.0), Margin(7, 8, 2.0)], [Margin(7, 8, -1.0), Margin(7, 8, 1.5)]) == 0.5
    )


@given(leads)
def test_nothing_moved_is_no_bound(values: list[float]) -> None:
    """Equal leads give 0, below which no lead lies: then no difference is a near-tie."""
    text = [Margin(1, 2, value) for value in values]
    assert bound([text], [text], [text]) == 0.0


@given(leads, st.floats(0, 1))
def test_bound_is_the_largest_of_all(values: list[float], shift: float) -> None:
    """One moved lead in one text under one change is the bound."""
    text = [Margin(1, 2, value) for value in values]
    moved = [*text[:-1], Margin(1, 2, values[-1] + shift)]
    assert bound([text, text], [text, text], [text, moved]) == pytest.approx(shift)
