"""Runs that are made up, so that the truth of what a verdict says of them is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.verdict.samples import Sample

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Standard deviations of log seconds per token.

    Args:
        name: for the table.
        cell, start, block: of a cell, a server start and a block of their own.
        ar: of a noise that each cell keeps 95 % of to the next.
        walk: of the step from cell to cell of one that never returns.
        warming: log seconds that are gained over the run, most of them at its beginning.
        prompts: by how much the effect itself differs from prompt to prompt.
        bursts: share of cells in which something else runs, for about five in a row, and takes 10 to 60 %.
        single: share of cells that are 20 to 80 % slower, each alone.
        loud: how many times as noisy a config is as the baseline.
        missing: share of the pairs of cells that are not there.
    """

    name: str
    cell: float = 0.03
    start: float = 0.01
    block: float = 0.03
    ar: float = 0.0
    walk: float = 0.0
    warming: float = 0.0
    prompts: float = 0.0
    bursts: float = 0.0
    single: float = 0.0
    loud: float = 1.0
    missing: float = 0.0


NOISES = (
    Noise("white"),
    Noise("starts differ", start=0.04),
    Noise("AR(1) drift", ar=0.05),
    Noise("random walk", walk=0.01),
    Noise("warming up", warming=0.3),
    Noise("configs 3 x as noisy", loud=3.0),
    Noise("prompts differ", prompts=0.1),
    Noise("prompts and starts", prompts=0.05, start=0.04),
    Noise("prompts, random walk", prompts=0.05, walk=0.01),
    Noise("prompts, AR(1) drift", prompts=0.05, ar=0.05),
    Noise("1 of 10 pairs missing", missing=0.1, prompts=0.05, start=0.02),
    Noise("bursts", bursts=0.05),
    Noise("bursts, prompts differ", bursts=0.05, prompts=0.05),
    Noise("single slow cells", single=0.02),
)


@dataclass(frozen=True)
class Run:
    """Log seconds per token.

    Args:
        first, last: passes of the baseline, shape (blocks, prompts).
        own: of the configs, shape (blocks, configs, prompts).
        effects: by which each config is faster on each prompt, shape (configs, prompts).
    """

    first: Floats
    last: Floats
    own: Floats
    effects: Floats


def simulate(
    rng: np.random.Generator, noise: Noise, blocks: int, prompts: int, gains: Sequence[float]
) -> Run:
    """Return one run of configs whose true gains, as logs, are given."""
    starts, configs = len(gains) + 2, len(gains)
    shape = (blocks, starts, prompts)
    cells = blocks * starts * prompts
    log_s = _along(rng, noise, cells).reshape(shape)
    log_s += rng.normal(0, 0.3, prompts)
    log_s += rng.normal(0, noise.block, (blocks, 1, 1)) + rng.normal(0, noise.start, (blocks, starts, 1))
    log_s += rng.normal(0, noise.cell, shape)
    order = rng.random((blocks, configs)).argsort(axis=1) + 1
    own = np.take_along_axis(log_s, order[:, :, None], axis=1)
    own += rng.normal(0, noise.cell * math.sqrt(noise.loud**2 - 1), own.shape)
    effects = np.asarray(gains)[:, None] + rng.normal(0, noise.prompts, (configs, prompts))
    return Run(log_s[:, 0], log_s[:, -1], own - effects, effects)


def _along(rng: np.random.Generator, noise: Noise, cells: int) -> Floats:
    """Noise that goes from one cell to the next in the order of the run."""
    made = noise.warming * (1 - np.exp(-3 * np.arange(cells) / cells))
    made += np.cumsum(rng.normal(0, noise.walk, cells))
    level, keep = rng.normal(0, noise.ar), 0.95
    for i, push in enumerate(rng.normal(0, noise.ar * math.sqrt(1 - keep**2), cells) if noise.ar else ()):
        level = keep * level + push
        made[i] += level
    for begin in np.flatnonzero(rng.random(cells) < noise.bursts / 5):
        made[begin : begin + rng.poisson(4) + 1] += rng.uniform(0.1, 0.6)
    made += (rng.random(cells) < noise.single) * rng.uniform(0.2, 0.8, cells)
    return made


def samples(run: Run) -> Iterator[Sample]:
    """Yield the cells of a run."""
    passes = [("none", "first", run.first), ("none", "last", run.last)]
    passes += [(f"c{i}", "first", run.own[:, i]) for i in range(run.own.shape[1])]
    for config, pass_, log_s in passes:
        for (block, prompt), value in np.ndenumerate(log_s):
            yield Sample(
                model="m",
                temperature=0.0,
                config=config,
                prompt=f"p{prompt}",
                block=block + 1,
                pass_="last" if pass_ == "last" else "first",
                seconds=math.exp(value),
                tokens=64,
            )


def cut(run: Run, blocks: int) -> Run:
    """Return the first blocks of a run."""
    return Run(run.first[:blocks], run.last[:blocks], run.own[:blocks], run.effects)
