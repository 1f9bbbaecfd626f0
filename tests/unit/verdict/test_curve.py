"""The cost curve, the break-even and the prediction that follow from step times."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.record import Cost, Round, StepTime, Telemetry, TypeDrafts
from pytest_ngram.verdict.curve import (
    Curve,
    Drafted,
    Point,
    Series,
    Timed,
    break_even,
    break_evens,
    curve,
    predicted,
    timed,
)


def series(*ratios: tuple[int, float], draft: float | None = 0.0) -> Series:
    return Series(tuple(Point(w, 1, r, r, r, r) for w, r in ratios), draft)


def test_a_ratio_is_taken_within_a_block() -> None:
    """A block in which all is twice as slow has the same ratio, and a median over blocks keeps it."""
    steps = [
        Timed(1, "none", 1, 10, 5),
        Timed(1, "ngram", 9, 25, 5),
        Timed(2, "none", 1, 20, 5),
        Timed(2, "ngram", 9, 50, 5),
    ]
    found = curve(steps)
    assert found is not None
    (point,) = found.series["ngram"].points
    assert (point.tokens, point.n, point.ratio, point.low, point.high) == (9, 10, 2.5, 2.5, 2.5)
    assert found.blocks == 2


def test_a_block_without_plain_steps_is_left_out() -> None:
    """What cannot be compared is not, and with no plain step at all there is no curve."""
    steps = [Timed(1, "none", 1, 10, 5), Timed(1, "ngram", 3, 15, 1), Timed(2, "ngram", 3, 99, 1)]
    found = curve(steps)
    assert found is not None
    assert found.series["ngram"].points[0].ratio == 1.5
    assert curve(steps[1:]) is None


def test_a_draft_has_its_price_in_plain_steps() -> None:
    """1 ms a token beside plain steps of 10 ms."""
    found = curve(
        [Timed(1, "none", 1, 10, 5), Timed(1, "draft-mtp", 2, 15, 5)], [Drafted(1, "draft-mtp", 2, 1, 5)]
    )
    assert found is not None
    assert found.series["draft-mtp"].draft_ratio == pytest.approx(0.1)


def test_break_even_of_the_worked_example() -> None:
    """T(4)/T(1) = 1.6 and 0.08 a drafted token: n_max 3 needs 0.28."""
    found = break_even(series((4, 1.6), draft=0.08), 3)
    assert found is not None
    assert found.step_ratio == pytest.approx(1.84)
    assert found.acceptance == pytest.approx(0.28)


def test_break_even_is_not_told_beyond_the_curve() -> None:
    """Between two widths lies a line; past the last one nothing is known."""
    own = series((2, 1.2), (4, 1.6))
    assert own.ratio(1) == 1
    assert own.ratio(3) == pytest.approx(1.4)
    assert own.ratio(5) is None
    assert break_even(own, 4) is None
    found = Curve(10.0, 1, 1, {"ngram": own})
    assert [row.n_max for row in break_evens(found)["ngram"]] == [1, 2, 3]


@given(
    ratio=st.floats(1.0, 10.0),
    draft=st.floats(0.0, 0.5),
    n_max=st.integers(1, 16),
    steps=st.integers(1, 500),
)
def test_at_break_even_nothing_is_won_or_lost(ratio: float, draft: float, n_max: int, steps: int) -> None:
    """The prediction at exactly the acceptance that is needed is a speed-up of 1."""
    own = series((n_max + 1, ratio), draft=draft)
    found = break_even(own, n_max)
    assert found is not None
    tokens = steps * (1 + n_max * found.acceptance)
    speed = predicted(own, {n_max + 1: steps}, 0, tokens)  # type: ignore[arg-type]
    assert speed == pytest.approx(1.0)


def test_plain_steps_between_dilute_the_gain() -> None:
    """10 steps of 4 tokens at 2 plain steps each, and 20 plain ones: 60 tokens at the cost of 40 steps."""
    assert predicted(series((4, 2.0)), {4: 10}, 20, 60) == 1.5
    assert predicted(series((4, 2.0)), {9: 1}, 0, 5) is None


def test_a_short_draft_has_the_price_that_was_measured_of_short_drafts() -> None:
    """T(2) = T(4) = 2; a token costs 0.3 in drafts of 1 and 0.1 in drafts of 3: both steps cost 2.3."""
    found = curve(
        [Timed(1, "none", 1, 10, 9), Timed(1, "draft-mtp", 2, 20, 5), Timed(1, "draft-mtp", 4, 20, 5)],
        [Drafted(1, "draft-mtp", 2, 3, 5), Drafted(1, "draft-mtp", 4, 1, 15)],
    )
    assert found is not None
    mtp = found.series["draft-mtp"]
    assert [mtp.step_ratio(width) for width in (1, 2, 4, 5)] == [
        1.0,
        pytest.approx(2.3),
        pytest.approx(2.3),
        None,
    ]
    assert mtp.step_ratio(3) == pytest.approx(2.6)  # as near to 2 as to 4: the shorter one's price
    told = break_even(mtp, 3)
    assert told is not None
    assert told.acceptance == pytest.approx(1.3 / 3)


def a_round(by_type: dict[str, TypeDrafts], plain_from: str = "alone") -> Round:
    cost = msgspec.convert(
        {
            "draft_ms": 0.5,
            "verify_ms": 1,
            "replay_ms": 0,
            "plain_ms": 0,
            "rest_ms": 0,
            "plain_from": plain_from,
        },
        Cost,
    )
    times = {"1": StepTime(2, 10.0), "4": StepTime(5, 16.0, 15.0, 14.0)}
    return Round(
        "ok", 1, None, None, 9, 1.0, 11, 15.0, 1.0, 10, 5, 7, 5, 0, (5,), None, "limit",
        by_type=by_type, telemetry=Telemetry(step_ms_by_width=times, cost=cost),
    )  # fmt: skip


def test_a_round_gives_its_drafters_steps() -> None:
    """Means of both kinds of steps; of the baseline plain steps; an n-gram type's go into one curve."""
    one = TypeDrafts(7, 5, 10, 5)
    steps, drafted = timed(a_round({"ngram-simple": one}), 3, baseline=False)
    assert steps == [Timed(3, "ngram", 4, 16.0, 5)]
    assert drafted == [Drafted(3, "ngram", 4, 0.5, 10)]
    assert timed(a_round({}), 3, baseline=True)[0] == [Timed(3, "none", 1, 10.0, 2)]


@pytest.mark.parametrize("plain_from", ["gaps", "unclear"])
def test_fitted_steps_and_stacks_are_no_part_of_a_curve(plain_from: str) -> None:
    """A curve is made of steps that were read, not of such as a fit told apart; two drafters tell nothing."""
    one = TypeDrafts(7, 5, 10, 5)
    assert timed(a_round({"ngram-simple": one}, plain_from), 1, baseline=False) == ([], [])
    assert timed(a_round({"ngram-simple": one, "draft-mtp": one}), 1, baseline=False) == ([], [])
