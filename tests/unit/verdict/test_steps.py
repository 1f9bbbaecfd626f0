"""Which step took how long, from the time stamps of a trace."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.verdict.cost import Drafting, split, step_times
from pytest_ngram.verdict.steps import UNCLEAR, Mark, Steps, Verify, steps_of


def marks_of(parts: Sequence[tuple[int, int]], plain_ms: float, verify_ms: float) -> tuple[list[Mark], float]:
    """Lines of (plain steps before, width), each width costing `verify_ms` and a tenth per token more."""
    at_ms, marks = 0.0, []
    for plain, width in parts:
        at_ms += plain * plain_ms + verify_ms * (1 + 0.1 * (width - 2))
        marks.append(Mark(at_ms, width - 1, 0, False))
    return marks, at_ms


def test_without_plain_steps_the_gaps_are_the_steps() -> None:
    """MTP: each line ends a verify step that began at the line before."""
    steps = steps_of([Mark(10, 3, 1, False), Mark(18, 3, 0, False)], 18.05, 0)
    assert steps == Steps((Verify(4, 10, True), Verify(4, 8, True)), (), 0, 0.0, 0.0)


def test_a_replay_is_the_gap_after_a_restore() -> None:
    """The verify step that was refused, then the replay, which draws no new draft."""
    steps = steps_of([Mark(10, 12, 2, True), Mark(13, 3, 3, False), Mark(24, 12, 12, False)], 24, 0)
    assert steps.replay_ms == (3,)
    assert [step.ms for step in steps.verify] == [10, 11]


def test_the_worked_example() -> None:
    """4 plain steps lie in the gaps as 1, 0, 2 and in the tail 1."""
    marks = [Mark(at_ms, 8, 0, False) for at_ms in (17, 27, 47)]
    steps = steps_of(marks, 52, 4)
    assert [step.alone for step in steps.verify] == [False, True, False]
    assert steps.verify[1].ms == 10
    assert steps.plain_ms + sum(step.ms for step in steps.verify) == pytest.approx(52)
    assert steps.plain_ms / 4 == pytest.approx(5, abs=0.7)


@given(
    parts=st.lists(st.tuples(st.integers(0, 6), st.sampled_from([2, 5, 9])), min_size=4, max_size=60),
    tail=st.integers(0, 5),
    ratio=st.floats(1.05, 3.0),
)
@settings(deadline=None, max_examples=200)
def test_all_of_the_time_is_shared_out(parts: list[tuple[int, int]], tail: int, ratio: float) -> None:
    """Whatever the fit, the steps add up to the time, and the plain steps to their number."""
    marks, last = marks_of(parts, 5.0, 5.0 * ratio)
    plain_n = sum(plain for plain, _ in parts) + tail
    steps = steps_of(marks, last + 5.0 * tail, plain_n)
    assert sum(step.ms for step in steps.verify) + steps.plain_ms == pytest.approx(last + 5.0 * tail)
    assert steps.plain_n == plain_n
    assert len(steps.verify) == len(parts)


@pytest.mark.parametrize("ratio", [1.1, 1.4, 2.2, 3.7])
@pytest.mark.parametrize("seed", range(5))
def test_the_truth_is_found_through_noise(ratio: float, seed: int) -> None:
    """3 % of noise on each step, up to 6 plain steps a gap: plain and verify are told apart within 5 %."""
    rng = random.Random(seed)
    at_ms, marks, plain_ms, verify_ms, plain_n = 0.0, [], 0.0, 0.0, 0
    for _ in range(40):
        n = rng.choice([0, 0, 1, 2, 4, 6])
        plain = sum(rng.gauss(10, 0.3) for _ in range(n))
        verify = rng.gauss(10 * ratio, 0.3 * ratio)
        at_ms, plain_ms, verify_ms, plain_n = (
            at_ms + plain + verify,
            plain_ms + plain,
            verify_ms + verify,
            plain_n + n,
        )
        marks.append(Mark(at_ms, 8, 0, False))
    steps = steps_of(marks, at_ms + 0.03, plain_n)
    assert steps.plain_ms == pytest.approx(plain_ms, rel=0.05)
    assert sum(step.ms for step in steps.verify) == pytest.approx(verify_ms, rel=0.05)
    assert steps.residual < UNCLEAR


def test_a_fit_that_tells_nothing_says_so() -> None:
    """Gaps that are no multiple of anything are `unclear`, whatever they are split into."""
    rng = random.Random(1)
    at_ms, marks = 0.0, []
    for _ in range(12):
        at_ms += rng.uniform(1, 300)
        marks.append(Mark(at_ms, 8, 0, False))
    steps = steps_of(marks, at_ms, 13)
    cost = split(steps, Drafting({"ngram-cache": 1.0}), at_ms, 24)
    assert cost.plain_from == "unclear"


def test_a_decoding_drafter_is_shared_out_by_its_tokens() -> None:
    """10 ms for widths 4 and 1: 8 and 2; a type that looks up takes as long for each call."""
    steps = Steps((Verify(4, 30, True),), (), 1, 12.0, 0.0)
    assert Drafting({"draft-mtp": 10.0}).shares(steps) == ((8.0,), 2.0)
    assert Drafting({"ngram-simple": 10.0}).shares(steps) == ((5.0,), 5.0)


def test_step_times_leave_out_the_drafting_and_shared_gaps() -> None:
    """Only a step that has its gap to itself is a measured one; plain steps are a mean."""
    steps = Steps((Verify(3, 30, True), Verify(3, 40, False), Verify(3, 50, True)), (), 2, 12.0, 0.1)
    times = step_times(steps, Drafting({"ngram-simple": 5.0}))
    assert (times["3"].n, times["3"].mean_ms, times["3"].min_ms) == (2, 39.0, 29.0)
    assert (times["1"].n, times["1"].mean_ms, times["1"].median_ms) == (2, 5.0, None)


def test_split_adds_up_to_the_generation_time() -> None:
    """The worked example of `split`."""
    steps = Steps(tuple(Verify(3, 7.0, True) for _ in range(10)), (), 4, 29.0, 0.1)
    cost = split(steps, Drafting({"ngram-simple": 1.4}), 100.0, 50)
    assert cost.verify_ms == pytest.approx(1.38)
    assert cost.plain_ms == pytest.approx(0.572)
    assert cost.draft_ms == pytest.approx(0.028)
    assert cost.rest_ms == pytest.approx(0.02)
    assert cost.unexplained is None


def test_what_is_not_explained_is_said() -> None:
    """More than 2 % outside of all steps is told with its size."""
    steps = Steps((Verify(3, 90.0, True),), (), 0, 0.0, 0.0)
    cost = split(steps, Drafting({}), 100.0, 5)
    assert cost.unexplained is not None
    assert "10.00 of 100.00 ms" in cost.unexplained
