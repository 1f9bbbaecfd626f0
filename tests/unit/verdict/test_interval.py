"""The interval, the p-value and the floor, against other implementations and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_ngram.verdict.interval import (
    Fit,
    Gap,
    blocks_needed,
    fit,
    half_width,
    holm,
    p_value,
    prompts_needed,
)

# Log ratios of 4 blocks × 3 prompts, written down once.
FIXED = np.array(
    [[0.21, 0.05, 0.12], [0.24, 0.09, 0.11], [0.18, 0.01, 0.13], [0.23, 0.04, 0.19]],
)


def literal(grid: list[list[float]], level: float) -> tuple[float, float]:
    """Mean and half width, sum by sum from the formulas of docs/statistics.md."""
    n_blocks, n_prompts = len(grid), len(grid[0])
    mean = sum(sum(row) for row in grid) / (n_blocks * n_prompts)
    rows = [sum(row) / n_prompts for row in grid]
    columns = [sum(row[p] for row in grid) / n_blocks for p in range(n_prompts)]
    ss_rest = sum(
        (grid[b][p] - rows[b] - columns[p] + mean) ** 2 for b in range(n_blocks) for p in range(n_prompts)
    )
    ms_rest = ss_rest / ((n_blocks - 1) * (n_prompts - 1))
    ms_prompts = n_blocks * sum((c - mean) ** 2 for c in columns) / (n_prompts - 1)
    s2_blocks = sum((r - mean) ** 2 for r in rows) / (n_blocks - 1) / n_blocks
    s2_prompts = max(0.0, ms_prompts - ms_rest) / (n_blocks * n_prompts)
    t_blocks = stats.t.ppf(1 - level / 2, n_blocks - 1)
    t_prompts = stats.t.ppf(1 - level / 2, n_prompts - 1)
    banerjee = math.sqrt(t_blocks**2 * s2_blocks + t_prompts**2 * s2_prompts)
    total = s2_blocks + s2_prompts
    df = total**2 / (s2_blocks**2 / (n_blocks - 1) + s2_prompts**2 / (n_prompts - 1))
    return mean, (banerjee + stats.t.ppf(1 - level / 2, df) * math.sqrt(total)) / 2


def test_the_worked_example_of_a_fit() -> None:
    """[[1, 3], [2, 6]]: mean 3, blocks' means 2 and 4, MS_prompts 9, MS_rest 1."""
    of = fit(np.array([[1.0, 3.0], [2.0, 6.0]]))
    assert (of.value, of.of_blocks, of.of_prompts) == pytest.approx((3.0, 2.0, 2.0))


@pytest.mark.parametrize("level", [0.05, 0.2, 0.01])
def test_a_second_implementation_gives_the_same_interval(level: float) -> None:
    """Sums written out and scipy's t distribution agree with the vectorised form to 12 digits."""
    mean, half = literal(FIXED.tolist(), level)
    of = fit(FIXED)
    assert of.value == pytest.approx(mean, rel=1e-12)
    assert half_width(of, level) == pytest.approx(half, rel=1e-12)


def test_for_these_prompts_it_is_the_t_interval_of_the_block_means() -> None:
    """With the prompts fixed, scipy's one-sample t interval over blocks is the interval."""
    of = fit(FIXED)
    half = half_width(of, 0.05, fixed_prompts=True)
    wanted = stats.ttest_1samp(FIXED.mean(axis=1), 0).confidence_interval(0.95)
    assert half is not None
    assert (of.value - half, of.value + half) == pytest.approx((wanted.low, wanted.high), rel=1e-12)


def test_where_prompts_do_not_differ_p_is_that_of_a_t_test() -> None:
    """With no variance between prompts, p and interval are those of scipy's one-sample t test over blocks."""
    one = np.array([[0.02], [0.05], [-0.01], [0.04]]) + np.zeros((4, 3))
    assert p_value(fit(one)) == pytest.approx(stats.ttest_1samp(one[:, 0], 0).pvalue, rel=1e-9)


def test_with_many_blocks_it_agrees_with_a_bootstrap() -> None:
    """Over 30 blocks, scipy's bootstrap of the block means is as wide as ours, within a fifth."""
    grid = np.random.default_rng(3).normal(0.1, 0.05, (30, 4)) + np.zeros(4)
    half = half_width(fit(grid), 0.05, fixed_prompts=True)
    found = stats.bootstrap((grid.mean(axis=1),), np.mean, method="BCa", rng=np.random.default_rng(4))
    low, high = found.confidence_interval
    assert half is not None
    assert (high - low) / 2 == pytest.approx(half, rel=0.2)


def test_p_is_the_level_at_which_the_interval_ends_at_no_difference() -> None:
    """p and the interval never contradict each other."""
    of = fit(FIXED)
    p = p_value(of)
    assert p is not None
    assert half_width(of, p) == pytest.approx(of.value, rel=1e-9)


def test_one_block_has_no_interval() -> None:
    """No spread, no interval and no p: null, not 0."""
    of = fit(FIXED[:1])
    assert half_width(of, 0.05) is None
    assert p_value(of) is None


def test_prompts_that_differ_widen_it_only_for_other_prompts() -> None:
    """The claim of these very prompts does not pay for what the prompts differ by."""
    far = FIXED + np.array([-0.3, 0.0, 0.3])
    near = fit(FIXED), fit(far)
    fixed = [half_width(of, 0.05, fixed_prompts=True) for of in near]
    others = [half_width(of, 0.05) for of in near]
    assert fixed[0] == pytest.approx(fixed[1])
    assert others[0] is not None
    assert others[1] is not None
    assert others[1] > 3 * others[0]


def test_weights_choose_between_prompts() -> None:
    """All weight on one prompt makes its column the estimate; equal weights are no weights."""
    one = fit(FIXED, weights=np.array([0.0, 5.0, 0.0]))
    assert one.value == pytest.approx(FIXED[:, 1].mean())
    assert one.of_blocks == pytest.approx(FIXED[:, 1].var(ddof=1))
    assert fit(FIXED, weights=np.full(3, 7.0)) == fit(FIXED)


def test_filled_places_are_no_evidence() -> None:
    """A place that was filled in has no rest of its own: fewer degrees of freedom, and a larger MS_rest."""
    assert fit(FIXED, filled=1).of_prompts < fit(FIXED).of_prompts


def test_the_worked_example_of_holm() -> None:
    """0.01, 0.04, 0.03 become 0.03, 0.06, 0.06; none passes 1."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_floor_by_hand() -> None:
    """Gaps of 3 and 4 % in 2 blocks: t with 2 degrees of freedom × rms × sqrt(1.5 ÷ 2 ÷ 2)."""
    gap = Gap((0.03, -0.04))
    assert gap.rms == pytest.approx(math.sqrt((0.0009 + 0.0016) / 2))
    assert gap.floor(0.05, 1.5, 2) == pytest.approx(4.302653 * gap.rms * math.sqrt(0.375), rel=1e-6)


def test_the_floor_falls_with_more_blocks() -> None:
    """More blocks of the same gap make a lower floor: otherwise more of them could never decide."""
    floors = [Gap((0.03,) * blocks).floor(0.05, 1.5, blocks) for blocks in (1, 2, 3, 5, 10)]
    assert floors == sorted(floors, reverse=True)


def test_the_blocks_that_are_asked_for_are_the_fewest_that_do() -> None:
    """At that number both the interval and the floor keep clear; one block less does not."""
    of, gap = Fit(0.1, 3, 5, 0.03**2, 0.0), Gap((0.02, 0.03, -0.02))
    needed = blocks_needed(of, gap, 1.5, distance=0.05, level=0.05, power=0.5)
    assert needed is not None

    def clear(blocks: int) -> bool:
        half = half_width(of, 0.05, blocks=blocks)
        return half is not None and max(half, gap.floor(0.05, 1.5, blocks)) < 0.05

    assert clear(needed)
    assert not clear(needed - 1)
    assert blocks_needed(of, gap, 1.5, distance=0.05, level=0.05, power=0.9) > needed  # type: ignore[operator]


def test_no_number_of_blocks_makes_up_for_prompts() -> None:
    """Where the prompts themselves are too different, blocks are not asked for, and prompts are."""
    of, gap = Fit(0.1, 3, 4, 0.01**2, 0.05**2), Gap((0.01, 0.01, -0.01))
    assert blocks_needed(of, gap, 1.5, distance=0.05, level=0.05, power=0.8) is None
    wanted = prompts_needed(of, distance=0.05, level=0.05, blocks=10)
    assert wanted is not None
    assert wanted > 4
    assert prompts_needed(of, distance=1e-6, level=0.05, blocks=10) is None
