"""How a figure changed between two runs, and how sure that is: speeds, shares, memory. Pure.

All figures are of the same cells on both sides, and what they claim is of these very prompts: a bump is
judged on the prompts that it is run on. So the doubt is that of blocks (`interval.py`), and for speeds the
noise floor beside it, from the gaps of the baseline's two passes in both runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

import msgspec
import numpy as np

from pytest_ngram.record import Record, Round
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.grid import Grid, Of, pair, prompt_seconds, seconds
from pytest_ngram.verdict.interval import Fit, Floats, Gap, fit, half_width
from pytest_ngram.verdict.samples import Sample

Kind = Literal["ratio", "difference"]
# Speeds and memory change by a ratio; shares by a difference, since 0.02 to 0.04 is no doubling of anything.
KINDS: dict[str, Kind] = {
    "tg": "ratio",
    "gain": "ratio",
    "pp": "ratio",
    "rss": "ratio",
    "acceptance": "difference",
    "coverage": "difference",
    "tokens_per_step": "difference",
}
OF_DRAFTS = frozenset({"acceptance", "coverage", "tokens_per_step"})  # a config without a type has none


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a config before and after.

    Args:
        old, new: tokens/s (tg, pp), MiB (rss), tg ÷ the baseline's (gain), else a share or tokens per step.
        kind: `ratio`: `change` is new ÷ old − 1; `difference`: new − old.
        change, low, high: with the interval over blocks; null where it is not known.
        floor: what `none` against itself would change by, as a ratio − 1; null for what has no such noise.
        blocks: that entered.
        why: there is no change or no interval.
    """

    old: float | None
    new: float | None
    kind: Kind
    change: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    blocks: int = 0
    why: Reason | None = None


def _null(kind: Kind, why: Reason, old: float | None = None, new: float | None = None) -> Figure:
    return Figure(old=old, new=new, kind=kind, why=why)


def _ratio(of: Fit, old: float, new: float, level: float, floor: float | None) -> Figure:
    """A figure out of log ratios."""
    half = half_width(of, level, fixed_prompts=True)
    return Figure(
        old=old,
        new=new,
        kind="ratio",
        change=math.expm1(of.value),
        low=None if half is None else math.expm1(of.value - half),
        high=None if half is None else math.expm1(of.value + half),
        floor=None if floor is None else math.expm1(floor),
        blocks=of.blocks,
    )


def speed(
    old: Sequence[Sample],
    new: Sequence[Sample],
    of: Of,
    gap: Gap | None,
    level: float,
) -> Figure:
    """Return the change of a speed (`seconds` or `prompt_seconds`) over cells that both sides have."""
    grid = pair(new, old, of)
    if grid is None:
        return _null("ratio", reason("no-undisturbed-cells"))
    found = fit(grid.ratios, grid.filled)
    floor = None if gap is None else gap.floor(level, _starts(old) + _starts(new), found.blocks)
    return _ratio(found, _mean_speed(old, of, grid), _mean_speed(new, of, grid), level, floor)


def _starts(samples: Iterable[Sample]) -> float:
    """1 ÷ the server starts of a block: two of the baseline, one of any other config."""
    return 1 / len({sample.pass_ for sample in samples})


def _mean_speed(samples: Iterable[Sample], of: Of, grid: Grid) -> float:
    """1 ÷ mean seconds, as the table has it."""
    inside = [s for s in samples if s.block in grid.blocks and s.prompt in grid.prompts]
    return 1 / fmean(value for s in inside if (value := of(s)))


Sides = Mapping[str, tuple[Sequence[Sample], Sequence[Sample]]]


def gain(configs: Sides, config: str, baseline: str, gap: Gap | None, level: float) -> Figure:
    """Return how a config's ratio to the baseline changed: what the host did to both falls out of it."""
    if baseline not in configs:
        return _null("ratio", reason("no-baseline-on-both-sides", baseline=baseline))
    (old, new), (old_base, new_base) = configs[config], configs[baseline]
    before, after, drift = pair(old, old_base), pair(new, new_base), pair(new_base, old_base)
    own = pair(new, old)
    if own is None or drift is None or before is None or after is None:
        return _null("ratio", reason("no-undisturbed-cells"))
    blocks = [block for block in own.blocks if block in drift.blocks]
    prompts = [prompt for prompt in own.prompts if prompt in drift.prompts]
    if not blocks or not prompts:
        return _null("ratio", reason("no-undisturbed-cells"))
    found = fit(_part(own, blocks, prompts) - _part(drift, blocks, prompts), own.filled + drift.filled)
    starts = sum(map(_starts, (old, new, old_base, new_base)))
    floor = None if gap is None else gap.floor(level, starts, found.blocks)
    return _ratio(found, _geometric(before), _geometric(after), level, floor)


def _part(grid: Grid, blocks: Sequence[int], prompts: Sequence[str]) -> Floats:
    rows = [grid.blocks.index(block) for block in blocks]
    columns = [grid.prompts.index(prompt) for prompt in prompts]
    return grid.ratios[np.ix_(rows, columns)]


def _geometric(grid: Grid) -> float:
    return math.exp(float(grid.ratios.mean()))


def memory(old: Sequence[Sample], new: Sequence[Sample], level: float) -> Figure:
    """Return the change of the largest resident memory of a cell, its interval as wide as blocks differ."""
    before, after = _largest(old), _largest(new)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        return _null("ratio", reason("not-told", what="resident memory"))
    logs = np.array([[math.log(after[block] / before[block])] for block in shared])
    largest = [max(side.values()) for side in (before, after)]
    change = math.log(largest[1] / largest[0])
    half = half_width(fit(logs), level, fixed_prompts=True)
    return Figure(
        old=largest[0],
        new=largest[1],
        kind="ratio",
        change=math.expm1(change),
        low=None if half is None else math.expm1(change - half),
        high=None if half is None else math.expm1(change + half),
        blocks=len(shared),
    )


def _largest(samples: Iterable[Sample]) -> dict[int, float]:
    by_block: dict[int, float] = {}
    for sample in samples:
        if sample.rss_mb:
            by_block[sample.block] = max(by_block.get(sample.block, 0.0), sample.rss_mb)
    return by_block


Share = Callable[[Sequence[Round]], float | None]


def share(old: Sequence[Record], new: Sequence[Record], of: Share, what: str, level: float) -> Figure:
    """Return the change of a share that is pooled over the cells of a block, and over all.

    Args:
        old, new: the same cells of two runs.
        of: the share of requests; None where it is not known.
        what: its name.
        level: of the interval.
    """
    before, after = of(_rounds(old)), of(_rounds(new))
    if before is None or after is None:
        return _null("difference", reason("not-told", what=what), before, after)
    by_block = [_by_block(side, of) for side in (old, new)]
    shared = sorted(by_block[0].keys() & by_block[1].keys())
    gaps = np.array([[by_block[1][block] - by_block[0][block]] for block in shared])
    half = half_width(fit(gaps), level, fixed_prompts=True) if shared else None
    change = after - before
    return Figure(
        old=before,
        new=after,
        kind="difference",
        change=change,
        low=None if half is None else change - half,
        high=None if half is None else change + half,
        blocks=len(shared),
    )


def _by_block(records: Iterable[Record], of: Share) -> dict[int, float]:
    blocks: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        blocks[record.cell.block].append(record)
    told = {block: of(_rounds(own)) for block, own in blocks.items()}
    return {block: value for block, value in told.items() if value is not None}


def _rounds(records: Iterable[Record]) -> list[Round]:
    return [round_ for record in records for round_ in record.rounds]


__all__ = [
    "KINDS",
    "OF_DRAFTS",
    "Figure",
    "Kind",
    "gain",
    "memory",
    "prompt_seconds",
    "seconds",
    "share",
    "speed",
]
