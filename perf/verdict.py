"""Whether the verdict is right as often as it says, by simulation: runs of which the truth is known.

A simulated run has blocks, prompts and server starts in the order of a real one, each cell one after the
other, and noise along that order. Printed, and checked against goals:

* coverage: how often the interval holds the truth, 93 to 97 %, and with outliers, which widen it, to 98.5 %;
  beside it that of a percentile bootstrap
* false alarms: how often a run of configs that are all the baseline claims a change of any, <= 5 %
* power: how often a gain of 15 % is adopted, where 5 % are wanted
* more blocks: how often the number that was asked for tells, and that half of it tells clearly less often

All goals allow for three standard errors of the simulation. `--quick` makes a tenth of the runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.verdict.interval import fit, half_width
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect, Settings

Floats = NDArray[np.float64]
SEED = 20261105
COVERAGE, COVERAGE_OUTLIERS = (0.93, 0.97), (0.93, 0.985)
FALSE_ALARMS = 0.05
POWER, GAIN = 0.8, 0.15
RESAMPLES, BOOTSTRAPS = 400, 1000  # draws of one, and how many are made: they are slow, and only to compare


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
    Noise("bursts", bursts=0.05),
    Noise("bursts, prompts differ", bursts=0.05, prompts=0.05),
    Noise("single slow cells", single=0.02),
)
SIZES = ((3, 4), (3, 8), (5, 5), (5, 20), (10, 4), (10, 20))


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


@dataclass
class Hits:
    """How often the truth lay in an interval, of how many."""

    runs: int = 0
    others: int = 0
    these: int = 0
    weighted: int = 0
    bootstrap: int = 0

    def shares(self) -> tuple[float, float, float, float]:
        """As shares: for other prompts, these prompts, token-weighted, and by a percentile bootstrap."""
        return (
            self.others / self.runs,
            self.these / self.runs,
            self.weighted / self.runs,
            self.bootstrap / min(self.runs, BOOTSTRAPS),
        )


def coverage(rng: np.random.Generator, noise: Noise, blocks: int, prompts: int, runs: int) -> Hits:
    """Return how often the intervals of a run hold the truth."""
    hits = Hits()
    for _ in range(runs):
        run = simulate(rng, noise, blocks, prompts, [0.1, 0.0])
        grid = (run.first + run.last) / 2 - run.own[:, 0]
        of = fit(grid)
        weighted = fit(grid, weights=rng.uniform(32, 256, prompts))
        hits.runs += 1
        hits.others += abs(of.value - 0.1) <= (half_width(of, 0.05) or 0)
        here = float(run.effects[0].mean())
        hits.these += abs(of.value - here) <= (half_width(of, 0.05, fixed_prompts=True) or 0)
        hits.weighted += abs(weighted.value - 0.1) <= (half_width(weighted, 0.05) or 0)
        if hits.runs <= BOOTSTRAPS:
            low, high = percentile(rng, grid)
            hits.bootstrap += low <= 0.1 <= high
    return hits


def percentile(rng: np.random.Generator, grid: Floats) -> tuple[float, float]:
    """Return the percentile interval of a bootstrap that draws blocks and prompts anew: not what is used."""
    blocks, prompts = grid.shape
    rows = rng.integers(0, blocks, (RESAMPLES, blocks))
    columns = rng.integers(0, prompts, (RESAMPLES, prompts))
    means = grid[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


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


def effects(run: Run, threshold: float) -> tuple[Effect, ...]:
    """Return what the verdict says of each config."""
    return judge(samples(run), Settings(threshold=threshold)).models[0].effects


def claims(found: Iterable[Effect]) -> tuple[bool, bool]:
    """Whether any config is adopted, and whether a change of any is claimed, up or down."""
    said = list(found)
    adopted = any(each.decision == "adopt" for each in said)
    slower = any(reason.code == "slower" for each in said for reason in each.reasons)
    return adopted, adopted or slower


def false_alarms(
    rng: np.random.Generator, noise: Noise, size: tuple[int, int], runs: int
) -> tuple[float, float, float]:
    """Return the shares of A/A runs of four configs that claim a gain or any change, with no gain wanted;
    and of those that adopt where 5 % are wanted."""
    gains = changes = wanted = 0
    same = replace(noise, prompts=0.0, loud=1.0)
    for _ in range(runs):
        run = simulate(rng, same, *size, [0.0] * 4)
        adopted, changed = claims(effects(run, 0.0))
        gains, changes = gains + adopted, changes + changed
        wanted += claims(effects(run, 0.05))[0]
    return gains / runs, changes / runs, wanted / runs


def power(rng: np.random.Generator, noise: Noise, size: tuple[int, int], runs: int) -> float:
    """Return the share of runs that adopt a gain of 15 % beside three configs without one; 5 % wanted."""
    gains = [math.log1p(GAIN), 0.0, 0.0, 0.0]
    adopted = sum(
        effects(simulate(rng, noise, *size, gains), 0.05)[0].decision == "adopt" for _ in range(runs)
    )
    return adopted / runs


@dataclass
class Asked:
    """Runs of which 3 blocks could not tell: how many blocks they asked for, and what those told."""

    numbers: list[int]
    told: int = 0
    told_by_half: int = 0


def more_blocks(rng: np.random.Generator, noise: Noise, prompts: int, gain: float, runs: int) -> Asked:
    """Give runs that cannot tell the blocks that they ask for, and half as many."""
    asked, most = Asked([]), 60
    for _ in range(runs):
        run = simulate(rng, noise, most, prompts, [math.log1p(gain)])
        pilot = effects(cut(run, 3), 0.05)[0]
        if pilot.more_blocks is None or pilot.more_prompts is not None or pilot.more_blocks + 3 > most:
            continue
        asked.numbers.append(pilot.more_blocks)
        asked.told += tells(run, 3 + pilot.more_blocks)
        asked.told_by_half += tells(run, 3 + pilot.more_blocks // 2)
    return asked


def tells(run: Run, blocks: int) -> bool:
    """Whether so many blocks of a run tell."""
    return effects(cut(run, blocks), 0.05)[0].decision != "cannot tell"


def cut(run: Run, blocks: int) -> Run:
    """Return the first blocks of a run."""
    return Run(run.first[:blocks], run.last[:blocks], run.own[:blocks], run.effects)


def within(share: float, low: float, high: float, runs: int) -> bool:
    """Whether a share is within bounds, as far as so many runs can tell."""
    slack = 3 * math.sqrt(max(share * (1 - share), 0.01) / runs)
    return low - slack <= share <= high + slack


def main(argv: Sequence[str]) -> int:
    """Print the tables; the exit code is 1 if a goal is missed."""
    quick = "--quick" in argv
    rng = np.random.default_rng(SEED)
    missed = [*_coverage_table(rng, quick=quick), *_alarm_table(rng, quick=quick)]
    missed += [*_power_table(rng, quick=quick), *_asked_table(rng, quick=quick)]
    for line in missed:
        print(f"MISSED: {line}")
    print("all goals met" if not missed else f"{len(missed)} goals missed")
    return 1 if missed else 0


def _coverage_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 300 if quick else 4000
    sizes = ((3, 4), (5, 5)) if quick else SIZES
    print(f"coverage of 95 % intervals, {runs} runs each; goal {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}")
    print(f"{'noise':24} {'blocks x prompts':>16}  other prompts  these prompts  by tokens  bootstrap")
    missed = []
    for noise in NOISES:
        goal = COVERAGE_OUTLIERS if noise.bursts or noise.single else COVERAGE
        for size in sizes:
            shares = coverage(rng, noise, *size, runs).shares()
            told = f"{noise.name:24} {size[0]:>7} x {size[1]:<6}"
            print(f"{told}  {shares[0]:13.1%}  {shares[1]:13.1%}  {shares[2]:9.1%}  {shares[3]:9.1%}")
            if not all(within(share, *goal, runs) for share in shares[:3]):
                missed.append(f"coverage, {told}")
    return missed


def _alarm_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 100 if quick else 1000
    sizes = ((3, 4),) if quick else ((3, 4), (5, 5), (10, 8))
    print(f"\nfalse alarms: four configs that are the baseline, {runs} runs each; goal <= {FALSE_ALARMS:.0%}")
    print(f"{'noise':24} {'blocks x prompts':>16}  any gain  any change  adopted at +5 %")
    missed = []
    for noise in NOISES:
        if noise.prompts or noise.loud != 1.0:
            continue
        for size in sizes:
            shares = false_alarms(rng, noise, size, runs)
            told = f"{noise.name:24} {size[0]:>7} x {size[1]:<6}"
            print(f"{told}  {shares[0]:8.1%}  {shares[1]:10.1%}  {shares[2]:15.1%}")
            if not all(within(share, 0.0, FALSE_ALARMS, runs) for share in shares):
                missed.append(f"false alarms, {told}")
    return missed


def _power_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 50 if quick else 300
    sizes = ((5, 5),) if quick else ((3, 4), (3, 8), (5, 5), (5, 8), (10, 8))
    names = ("white", "AR(1) drift", "prompts and starts")
    print(f"\npower: adopts +{GAIN:.0%} where +5 % are wanted, {runs} runs each")
    print(f"{'noise':24} {'blocks x prompts':>16}  adopted")
    shares: dict[tuple[str, tuple[int, int]], float] = {}
    for noise in NOISES:
        for size in sizes if noise.name in names else ():
            shares[noise.name, size] = power(rng, noise, size, runs)
            print(f"{noise.name:24} {size[0]:>7} x {size[1]:<6}  {shares[noise.name, size]:7.1%}")
    stated = shares["AR(1) drift", (5, 5)]
    return [] if within(stated, POWER, 1.0, runs) else [f"power at 5 x 5 is {stated:.0%}"]


def _asked_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 60 if quick else 600
    print(f"\nmore blocks: of {runs} runs each, those that 3 blocks could not tell, with what they asked for")
    print(f"{'noise':24} {'gain':>5}  asked  median  told  told by half")
    told = by_half = asked = 0
    for noise in (NOISES[0], NOISES[1], NOISES[2], Noise("prompts 2 %", prompts=0.02)):
        for gain in (0.10, 0.15):
            each = more_blocks(rng, noise, 5, gain, runs)
            n = len(each.numbers)
            told, by_half, asked = told + each.told, by_half + each.told_by_half, asked + n
            shares = f"{each.told / n:4.0%}  {each.told_by_half / n:12.0%}" if n else "   -"
            middle = f"{np.median(each.numbers):6.0f}" if n else "     -"
            print(f"{noise.name:24} {gain:+5.0%}  {n:5}  {middle}  {shares}")
    print(f"all: {told / asked:.0%} told, {by_half / asked:.0%} by half")
    enough = within(told / asked, POWER, 1.0, asked) and by_half / asked < told / asked - 0.1
    return [] if enough else ["more blocks"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
