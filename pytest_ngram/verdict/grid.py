"""Pairs of cells to a grid of log ratios, blocks × prompts, without holes. What is left out is told."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

import msgspec
import numpy as np

from pytest_ngram.verdict.interval import Floats, Gap
from pytest_ngram.verdict.samples import Sample

Key = tuple[int, str]  # block, prompt
Of = Callable[[Sample], float | None]


class Grid(msgspec.Struct, frozen=True):
    """Log ratios of two configs.

    Args:
        blocks, prompts: of the rows and of the columns.
        ratios: log of base ÷ own seconds: above 0 is faster; shape (blocks, prompts).
        tokens: generated for each prompt, mean over both sides and blocks; 1 where not known.
        filled: places that hold no pair, filled in as block + prompt.
        lost_prompts, lost_blocks: what one side has and the other has not, or not often enough.
    """

    blocks: tuple[int, ...]
    prompts: tuple[str, ...]
    ratios: Floats
    tokens: Floats
    filled: int
    lost_prompts: tuple[str, ...]
    lost_blocks: tuple[int, ...]


def seconds(sample: Sample) -> float | None:
    """Seconds per generated token of a cell that enters."""
    return sample.seconds if sample.usable else None


def prompt_seconds(sample: Sample) -> float | None:
    """Seconds per prompt token of a cell that enters."""
    return sample.prompt_seconds if sample.usable else None


def side(samples: Iterable[Sample], of: Of) -> dict[Key, float]:
    """Return the log of a value by block and prompt, as a mean over the passes.

    Where a config has two passes, both are needed: one of them alone would carry the drift of its block.
    """
    values: dict[Key, dict[str, float]] = defaultdict(dict)
    passes: set[str] = set()
    for sample in samples:
        passes.add(sample.pass_)
        value = of(sample)
        if value is not None and value > 0:
            values[sample.block, sample.prompt][sample.pass_] = math.log(value)
    return {key: fmean(found.values()) for key, found in sorted(values.items()) if len(found) == len(passes)}


def pair(own: Sequence[Sample], base: Sequence[Sample], of: Of = seconds) -> Grid | None:
    """Return the grid of the prompts and blocks that both sides have; None where they share none.

    A prompt stays if it has a pair in more than half of the blocks, then a block if it has one of half of the
    prompts or more, until nothing more goes: so any two prompts share a block, and what is filled in comes
    from a fit that they hang together in. Worked example: p, q and r in 3 blocks, the run was stopped after p
    in the third: block 3 goes. Had q crashed in blocks 2 and 3, q would go.
    """
    left, right = side(own, of), side(base, of)
    pairs = {key: right[key] - left[key] for key in left if key in right}
    prompts = sorted({prompt for _block, prompt in pairs})
    blocks = sorted({block for block, _prompt in pairs})
    while True:
        kept = [p for p in prompts if 2 * sum((b, p) in pairs for b in blocks) > len(blocks)]
        rows = [b for b in blocks if kept and 2 * sum((b, p) in pairs for p in kept) >= len(kept)]
        if (kept, rows) == (prompts, blocks):
            break
        prompts, blocks = kept, rows
    if not prompts or not blocks:
        return None
    ratios = np.array([[pairs.get((b, p), math.nan) for p in prompts] for b in blocks])
    holes = int(np.isnan(ratios).sum())
    asked = [*own, *base]
    return Grid(
        blocks=tuple(blocks),
        prompts=tuple(prompts),
        ratios=filled(ratios) if holes else ratios,
        tokens=_tokens(asked, blocks, prompts),
        filled=holes,
        lost_prompts=tuple(sorted({s.prompt for s in asked} - set(prompts))),
        lost_blocks=tuple(sorted({s.block for s in asked} - set(blocks))),
    )


def filled(ratios: Floats) -> Floats:
    """Fill holes (NaN) by the least squares of block + prompt, so that a missing cell moves the mean nowhere.

    Args:
        ratios: shape (blocks, prompts); any two prompts share a block.
    """
    holes = np.isnan(ratios)
    blocks, prompts = ratios.shape
    at_block, at_prompt = np.nonzero(~holes)
    rows = np.arange(len(at_block))
    design = np.zeros((len(at_block), blocks + prompts))
    design[rows, at_block] = 1.0
    design[rows, blocks + at_prompt] = 1.0
    found = np.linalg.lstsq(design, ratios[~holes], rcond=None)[0]
    return np.where(holes, found[:blocks, None] + found[None, blocks:], ratios)


def _tokens(samples: Iterable[Sample], blocks: Sequence[int], prompts: Sequence[str]) -> Floats:
    counts: dict[str, list[int]] = {prompt: [] for prompt in prompts}
    for sample in samples:
        if sample.usable and sample.tokens and sample.block in blocks and sample.prompt in counts:
            counts[sample.prompt].append(sample.tokens)
    if not all(counts.values()):
        return np.ones(len(prompts))
    return np.array([fmean(counts[prompt]) for prompt in prompts])


def gap(baseline: Iterable[Sample], of: Of = seconds) -> Gap | None:
    """Return how far the first and the last pass of the baseline lie apart; None without both in a block."""
    passes: dict[str, list[Sample]] = {"first": [], "last": []}
    for sample in baseline:
        passes[sample.pass_].append(sample)
    first, last = side(passes["first"], of), side(passes["last"], of)
    by_block: dict[int, list[float]] = defaultdict(list)
    for block, prompt in first:
        if (block, prompt) in last:
            by_block[block].append(last[block, prompt] - first[block, prompt])
    return Gap(tuple(fmean(gaps) for gaps in by_block.values())) if by_block else None
