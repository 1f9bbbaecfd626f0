"""The interval of an effect over blocks and prompts, its p-value, and how many more blocks it needs.

The data is a grid of log ratios, blocks × prompts: l[b, p] = effect + of the block + of the prompt + rest.
Its two sources of doubt are judged apart, each by the t distribution of as many as there are:

* blocks: s_blocks² = variance of the blocks' means ÷ B, with B − 1 degrees of freedom. Drift, the state of
  the machine and the luck of a server start are in it, since each block is a fresh round through all.
* prompts: s_prompts² = (MS_prompts − MS_rest) ÷ (B P), not below 0, with P − 1 degrees of freedom: by how
  much the effect itself differs from prompt to prompt.

Half the width is the mean of two classical answers for the sum of two such estimates: Banerjee's
sqrt(t_B² s_blocks² + t_P² s_prompts²), which is never too narrow, and Welch's
t_df sqrt(s_blocks² + s_prompts²), which is a little. `docs/statistics.md` has what was measured of all three.

Resampling is not used: 3 blocks have 10 different resamples, of which 3 are of a single block.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]
MOST = 100  # more blocks or prompts are not asked for


class Fit(msgspec.Struct, frozen=True):
    """An estimate with its two variances, all on the log scale.

    Args:
        value: the mean over blocks and prompts.
        blocks, prompts: how many there are.
        of_blocks: variance of a block's mean, for one block (÷ blocks: of the mean).
        of_prompts: variance of the mean by the prompts' own differences; more blocks leave it as it is.
    """

    value: float
    blocks: int
    prompts: int
    of_blocks: float
    of_prompts: float


def fit(grid: Floats, filled: int = 0, weights: Floats | None = None) -> Fit:
    """Return the estimate of a grid.

    Worked example: blocks 1, 2 and prompts p, q with [[1, 3], [2, 6]]: the mean is 3, the blocks' means are 2
    and 4, so `of_blocks` is 2. MS_prompts is 9, MS_rest 1, so `of_prompts` is (9 − 1) / 4 = 2.

    Args:
        grid: log ratios, shape (blocks, prompts), without holes.
        filled: how many of them were filled in from the others.
        weights: of the prompts, shape (prompts,), any scale; alike where not given.
    """
    blocks, prompts = grid.shape
    share = np.full(prompts, 1 / prompts) if weights is None else weights / weights.sum()
    means = grid @ share
    of_blocks = float(means.var(ddof=1)) if blocks > 1 else 0.0
    apart = _between_prompts(grid, filled) if prompts > 1 and blocks > 1 else 0.0
    return Fit(float(means.mean()), blocks, prompts, of_blocks, apart * float(share @ share))


def _between_prompts(grid: Floats, filled: int) -> float:
    """The variance of the effect from prompt to prompt: (MS_prompts − MS_rest) ÷ B, not below 0."""
    blocks, prompts = grid.shape
    rows, columns = grid.mean(axis=1), grid.mean(axis=0)
    rest = grid - rows[:, None] - columns[None, :] + grid.mean()
    free = (blocks - 1) * (prompts - 1) - filled
    of_rest = float((rest**2).sum()) / free if free > 0 else 0.0
    apart = float(columns.var(ddof=1)) - of_rest / blocks
    return apart if apart > 0 else 0.0


def half_width(
    of: Fit, level: float, *, blocks: int | None = None, fixed_prompts: bool = False
) -> float | None:
    """Return half the width of the interval on the log scale; None where one block tells no spread.

    Args:
        of: the estimate.
        level: that the interval is wrong with this chance, such as 0.05.
        blocks: as if there were so many.
        fixed_prompts: claim it of these very prompts, not of others like them. So it is for one prompt.
    """
    blocks = of.blocks if blocks is None else blocks
    if of.blocks < 2 or blocks < 2:
        return None
    by_blocks = of.of_blocks / blocks
    at = 1 - level / 2
    t_blocks = float(stdtrit(blocks - 1, at))
    if fixed_prompts or of.of_prompts == 0.0:
        return t_blocks * math.sqrt(by_blocks)
    both = by_blocks + of.of_prompts
    t_prompts = float(stdtrit(of.prompts - 1, at))
    outer = math.sqrt(t_blocks**2 * by_blocks + t_prompts**2 * of.of_prompts)
    free = both**2 / (by_blocks**2 / (blocks - 1) + of.of_prompts**2 / (of.prompts - 1))
    return (outer + float(stdtrit(free, at)) * math.sqrt(both)) / 2


def p_value(of: Fit, *, against: float = 0.0) -> float | None:
    """Return the level at which the interval's end is at `against`: the two-sided p of "no difference"."""
    distance = abs(of.value - against)
    if of.blocks < 2:
        return None
    if distance == 0.0:
        return 1.0
    low, high = math.log(1e-12), 0.0
    for _ in range(50):
        middle = (low + high) / 2
        width = half_width(of, math.exp(middle))
        low, high = (low, middle) if width is not None and width < distance else (middle, high)
    return math.exp(high)


def holm(p_values: list[float]) -> list[float]:
    """Return p-values adjusted for their number, step by step from the smallest, in the order given.

    Worked example: 0.01, 0.04, 0.03 become 0.03, 0.06, 0.06.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


class Gap(msgspec.Struct, frozen=True):
    """How far the two passes of the baseline lie apart, on the log scale, over blocks.

    Args:
        per_block: log of last ÷ first seconds, mean over the prompts that both have, shape (blocks,).
    """

    per_block: tuple[float, ...]

    @property
    def rms(self) -> float:
        """Root of the mean square: their mean is 0 where the machine does not change, so it stays in."""
        return math.sqrt(sum(gap * gap for gap in self.per_block) / len(self.per_block))

    def floor(self, level: float, starts: float, blocks: int) -> float:
        """Return what a config that is `none` would differ by, on the log scale, with a chance of `level`.

        A gap is between two starts, so its variance is twice that of a start. An effect is between a mean of
        n and a mean of m starts of each block, with 1/n + 1/m times that variance, and a mean over blocks.

        Args:
            level: such as 0.05.
            starts: 1/n + 1/m: 1.5 against the two passes of the baseline, 2 between two configs.
            blocks: that the effect is of.
        """
        t = float(stdtrit(len(self.per_block), 1 - level / 2))
        return t * self.rms * math.sqrt(starts / 2 / blocks)


def blocks_needed(
    of: Fit, gap: Gap, starts: float, *, distance: float, level: float, power: float
) -> int | None:
    """Return how many blocks would tell the effect from what is so far away; None where 100 do not.

    If all stays as it was seen, both the interval and the floor keep clear of it with a chance of `power`.

    Args:
        of: the estimate.
        gap: of the baseline.
        starts: as of `Gap.floor`.
        distance: between estimate and threshold, on the log scale.
        level: of the interval.
        power: such as 0.8.
    """
    z = float(ndtri(power))
    for blocks in range(max(2, of.blocks), MOST + 1):
        chance = z * math.sqrt(of.of_blocks / blocks)
        width = half_width(of, level, blocks=blocks)
        if width is not None and max(width, gap.floor(level, starts, blocks)) + chance < distance:
            return blocks
    return None


def prompts_needed(of: Fit, *, distance: float, level: float, blocks: int) -> int | None:
    """Return how many prompts like these would do, at so many blocks; None where 100 do not."""
    for prompts in range(of.prompts + 1, MOST + 1):
        more = msgspec.structs.replace(of, prompts=prompts, of_prompts=of.of_prompts * of.prompts / prompts)
        width = half_width(more, level, blocks=blocks)
        if width is not None and width < distance:
            return prompts
    return None
