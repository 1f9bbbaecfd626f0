"""The whole way from seconds to a verdict, written a second time from docs/statistics.md: loops and scipy.

Nothing of the package computes here. The data is fixed, and was written down once.
"""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect

Grid = list[list[float]]

# ms per token, 4 blocks × 3 prompts
FIRST: Grid = [[98.0, 121.0, 80.5], [101.2, 119.4, 82.0], [97.1, 125.9, 79.9], [99.9, 122.3, 83.1]]
LAST: Grid = [[99.5, 118.7, 81.9], [103.0, 121.1, 80.8], [96.0, 124.0, 81.7], [102.4, 120.6, 81.0]]
FAST: Grid = [[71.0, 95.2, 70.1], [74.1, 92.0, 69.5], [69.8, 97.7, 71.2], [72.6, 93.9, 68.8]]
SLOW: Grid = [[104.0, 125.0, 83.3], [101.9, 131.4, 86.0], [107.0, 127.2, 81.1], [103.3, 129.0, 85.2]]
TOKENS = [200, 50, 120]


def log_ratios(own: Grid) -> Grid:
    return [
        [(math.log(FIRST[b][p]) + math.log(LAST[b][p])) / 2 - math.log(own[b][p]) for p in range(len(own[b]))]
        for b in range(len(own))
    ]


def half(grid: Grid, weights: list[float], level: float) -> float:
    blocks, prompts = len(grid), len(grid[0])
    share = [w / sum(weights) for w in weights]
    means = [sum(w * value for w, value in zip(share, row, strict=True)) for row in grid]
    s2_blocks = stats.tvar(means) / blocks
    rows = [sum(row) / prompts for row in grid]
    columns = [sum(row[p] for row in grid) / blocks for p in range(prompts)]
    grand = sum(rows) / blocks
    rest = sum(
        (grid[b][p] - rows[b] - columns[p] + grand) ** 2 for b in range(blocks) for p in range(prompts)
    ) / ((blocks - 1) * (prompts - 1))
    s2_prompts = max(0.0, stats.tvar(columns) - rest / blocks) * sum(w * w for w in share)
    t_blocks, t_prompts = (stats.t.isf(level / 2, n - 1) for n in (blocks, prompts))
    outer = math.hypot(t_blocks * math.sqrt(s2_blocks), t_prompts * math.sqrt(s2_prompts))
    total = s2_blocks + s2_prompts
    free = total**2 / (s2_blocks**2 / (blocks - 1) + s2_prompts**2 / (prompts - 1))
    return float(outer + stats.t.isf(level / 2, free) * math.sqrt(total)) / 2


def mean(grid: Grid, weights: list[float]) -> float:
    return sum(w * value for row in grid for w, value in zip(weights, row, strict=True)) / (
        sum(weights) * len(grid)
    )


def p_value(grid: Grid) -> float:
    value, alike = abs(mean(grid, [1.0] * 3)), [1.0] * 3
    return float(
        math.exp(optimize.brentq(lambda log_p: half(grid, alike, math.exp(log_p)) - value, -27, -1e-9))
    )


@pytest.fixture(scope="module")
def effects() -> dict[str, Effect]:
    passes = (
        ("none", "first", FIRST),
        ("none", "last", LAST),
        ("fast", "first", FAST),
        ("slow", "first", SLOW),
    )
    samples = [
        Sample(
            model="m",
            temperature=0.0,
            config=config,
            prompt=f"p{p}",
            block=b + 1,
            pass_=pass_,  # type: ignore[arg-type]
            seconds=ms / 1000,
            tokens=TOKENS[p],
        )
        for config, pass_, grid in passes
        for b, row in enumerate(grid)
        for p, ms in enumerate(row)
    ]
    return {each.config: each for each in judge(samples).models[0].effects}


@pytest.mark.parametrize(("config", "own"), [("fast", FAST), ("slow", SLOW)])
def test_ratio_and_interval(effects: dict[str, Effect], config: str, own: Grid) -> None:
    """Estimate and both ends, with each prompt alike and with each token alike, to 9 digits."""
    grid = log_ratios(own)
    effect = effects[config]
    for weights, found in (
        ([1.0] * 3, (effect.ratio, effect.low, effect.high)),
        (
            [float(n) for n in TOKENS],
            (
                effect.token_weighted and effect.token_weighted.ratio,
                effect.token_weighted and effect.token_weighted.low,
                effect.token_weighted and effect.token_weighted.high,
            ),
        ),
    ):
        value, width = mean(grid, weights), half(grid, weights, 0.05)
        wanted = [math.exp(value), math.exp(value - width), math.exp(value + width)]
        assert list(found) == pytest.approx(wanted, rel=1e-9)


def test_p_values_and_holm(effects: dict[str, Effect]) -> None:
    """p by root finding; of two, the smaller is doubled, and the larger is no smaller than that."""
    alone = {"fast": p_value(log_ratios(FAST)), "slow": p_value(log_ratios(SLOW))}
    assert {name: each.p for name, each in effects.items()} == pytest.approx(alone, rel=1e-6)
    small, large = sorted(alone, key=lambda name: alone[name])
    assert effects[small].p_holm == pytest.approx(2 * alone[small], rel=1e-6)
    assert effects[large].p_holm == pytest.approx(max(2 * alone[small], alone[large]), rel=1e-6)


def test_the_floor(effects: dict[str, Effect]) -> None:
    """t with 4 degrees of freedom × the gaps' root mean square × sqrt((1 + 1/2) / 2 / 4)."""
    gaps = [sum(math.log(LAST[b][p] / FIRST[b][p]) for p in range(3)) / 3 for b in range(4)]
    rms = math.sqrt(sum(gap * gap for gap in gaps) / 4)
    wanted = math.expm1(float(stats.t.isf(0.025, 4)) * rms * math.sqrt(1.5 / 2 / 4))
    assert effects["fast"].floor == pytest.approx(wanted, rel=1e-9)
    assert effects["slow"].floor == pytest.approx(wanted, rel=1e-9)
