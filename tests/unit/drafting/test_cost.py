"""A cost curve is fitted or given, and tells the speed that steps of so many widths have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.drafting.cost import Curve, Timed, estimate, fit, from_points, predict
from pytest_ngram.drafting.tally import Tally


def tally_of(generated: int, widths: Sequence[tuple[int, int]]) -> Tally:
    """A request of which only its tokens and the widths of its decodes matter."""
    return Tally(1, generated, 0, 0, 0, 0, 0, (), tuple(widths), 0, 0)


def test_the_worked_example_of_the_fit() -> None:
    """10 plain in 1 s, and 4 plain with 3 of 3 tokens in 1.3 s: 0.1 s a decode and 0.1 s a token more."""
    curve = fit([Timed([(1, 10)], 1.0), Timed([(1, 4), (3, 3)], 1.3)])
    assert curve is not None
    assert curve.of(1) == pytest.approx(0.1)
    assert curve.of(3) == pytest.approx(0.3)


@given(
    first=st.floats(1e-3, 1.0),
    more=st.floats(0.0, 1.0),
    shapes=st.lists(
        st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(2, 9)), min_size=2, max_size=9
    ),
)
def test_a_straight_line_is_found_again(
    first: float, more: float, shapes: list[tuple[int, int, int]]
) -> None:
    """Where requests took exactly what a line says, the fit is that line."""
    timed = [
        Timed([(1, plain), (width, wide)], plain * first + wide * (first + (width - 1) * more))
        for plain, wide, width in shapes
    ]
    curve = fit([Timed([(1, 7)], 7 * first), *timed])
    assert curve is not None
    assert curve.of(1) == pytest.approx(first, rel=1e-6)
    assert curve.of(9) == pytest.approx(first + 8 * more, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "timed",
    [
        [],
        [Timed([(1, 10)], 1.0)],
        [Timed([(1, 10)], 1.0), Timed([(1, 20)], 2.1)],
        [Timed([(1, 10)], 0.0), Timed([(3, 10)], 1.0)],
    ],
)
def test_one_width_tells_no_curve(timed: list[Timed]) -> None:
    """Requests of one width alone, or without a time, leave the curve unknown."""
    assert fit(timed) is None


def test_between_and_beyond_points_the_curve_is_straight() -> None:
    """Widths that were not measured lie on the line between two that were, or on the last one's, drawn on."""
    curve = from_points({4: 0.20, 1: 0.10, 2: 0.14})
    assert curve.tokens == (1, 2, 4)
    assert [curve.of(width) for width in (1, 2, 3, 4, 6)] == pytest.approx([0.10, 0.14, 0.17, 0.20, 0.26])
    assert from_points({1: 0.1}).of(5) == 0.1


@pytest.mark.parametrize("points", [{}, {0: 0.1}, {1: 0.0}, {1: -1.0}, {1: float("nan")}, {1: float("inf")}])
def test_points_that_no_host_has_are_refused(points: Mapping[int, float]) -> None:
    """No points, a decode of no token, and one that takes no time are errors."""
    with pytest.raises(ValueError, match="decode"):
        from_points(points)


def test_speed_is_tokens_by_the_seconds_of_all_decodes() -> None:
    """20 tokens by 10 plain decodes of 0.1 s and 5 wide ones of 0.2 s are 10 a second."""
    curve = Curve((1, 3), (0.1, 0.2))
    found = estimate([tally_of(20, [(1, 10), (3, 5)])], curve)
    assert found is not None
    assert found.tg == pytest.approx(10.0)
    assert found.low is found.high is None


def test_without_a_curve_or_a_token_nothing_is_predicted() -> None:
    """What is unknown is None."""
    assert predict([tally_of(20, [(1, 20)])], None) is None
    assert predict([tally_of(0, [])], from_points({1: 0.1})) is None
    assert estimate([], from_points({1: 0.1})) is None


def test_the_interval_comes_from_prompts_that_differ() -> None:
    """Equal prompts and a given curve leave no width; different ones have the pooled speed inside."""
    curve = from_points({1: 0.1, 4: 0.2})
    same = predict([tally_of(20, [(1, 20)])] * 4, curve)
    assert same is not None
    assert same.low == same.high == pytest.approx(same.tg)
    tallies = [tally_of(20, [(1, 20)]), tally_of(20, [(1, 4), (4, 4)]), tally_of(20, [(4, 5)])]
    one, other = predict(tallies, curve), predict(tallies, curve)
    assert one == other
    assert one is not None
    assert one.low is not None
    assert one.high is not None
    assert one.low < one.tg < one.high


def test_a_curve_of_several_blocks_widens_the_interval() -> None:
    """Between its fastest and slowest block anything may be; beyond them nothing."""
    curve = from_points({1: 0.10, 4: 0.2}, {1: 0.08, 4: 0.2}, {1: 0.12, 4: 0.2})
    found = predict([tally_of(20, [(1, 20)])], curve)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 1 / 0.12 <= found.low < found.tg < found.high <= 1 / 0.08
    assert curve.between(0.0).of(1) == pytest.approx(0.08)
    assert curve.between(1.0).of(1) == pytest.approx(0.12)


def test_a_fitted_curve_widens_the_interval() -> None:
    """Measurements that do not lie on one line are resampled with the prompts."""
    timed = [Timed([(1, 10)], 1.0), Timed([(1, 10)], 1.3), Timed([(1, 4), (3, 3)], 1.3), Timed([(3, 5)], 2.0)]
    found = predict([tally_of(20, [(1, 20)])], fit(timed), timed)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.high
