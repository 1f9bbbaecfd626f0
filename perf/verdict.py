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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from verdict_runs import NOISES, Floats, Noise, Run, cut, samples, simulate

from pytest_ngram.verdict.grid import filled
from pytest_ngram.verdict.interval import fit, half_width
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.types import Effect, Settings

SEED = 20261105
COVERAGE, COVERAGE_OUTLIERS = (0.93, 0.97), (0.93, 0.985)
FALSE_ALARMS = 0.05
POWER, GAIN, STATED = 0.8, 0.15, "AR(1) drift"  # of 5 blocks × 5 prompts with this noise
RESAMPLES, BOOTSTRAPS = 400, 1000  # draws of one, and how many are made: they are slow, and only to compare


SIZES = ((3, 4), (3, 8), (5, 5), (5, 20), (10, 4), (10, 20))


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
        holes = round(noise.missing * grid.size)
        grid.flat[rng.choice(grid.size, holes, replace=False)] = math.nan
        grid = filled(grid) if holes else grid
        of = fit(grid, holes)
        weighted = fit(grid, holes, rng.uniform(32, 256, prompts))
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


def within(share: float, low: float, high: float, runs: int) -> bool:
    """Whether a share is within bounds, as far as so many runs can tell."""
    slack = [3 * math.sqrt(bound * (1 - bound) / runs) for bound in (low, high)]
    return low - slack[0] <= share <= high + slack[1]


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


def table(head: Sequence[str]) -> None:
    """Print the head of a table, as Markdown, so that it can stand in docs/statistics.md."""
    row(head)
    print("|" + "---|" + "--:|" * (len(head) - 1))


def row(cells: Iterable[object]) -> None:
    """Print a row of a table; a float is a share."""
    print(
        f"| {' | '.join(f'{cell:.1%}' if isinstance(cell, float) else str(cell) for cell in cells)} |",
        flush=True,
    )


def times(size: tuple[int, int]) -> str:
    """Blocks × prompts."""
    return f"{size[0]} × {size[1]}"


def _coverage_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 300 if quick else 4000
    sizes = ((3, 4), (5, 5)) if quick else SIZES
    print(f"coverage of 95 % intervals, {runs} runs each; goal {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}\n")
    table(
        (
            "noise",
            "blocks × prompts",
            "other prompts (decides)",
            "these prompts",
            "token-weighted",
            "bootstrap",
        )
    )
    missed = []
    for noise in NOISES:
        goal = COVERAGE_OUTLIERS if noise.bursts or noise.single else COVERAGE
        for size in sizes:
            shares = coverage(rng, noise, *size, runs).shares()
            row((noise.name, times(size), *shares))
            if not all(within(share, *goal, runs) for share in shares[:3]):
                missed.append(f"coverage, {noise.name}, {times(size)}")
    return missed


def _alarm_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 100 if quick else 1000
    sizes = ((3, 4),) if quick else ((3, 4), (5, 5), (10, 8))
    print(
        f"\nfalse alarms: four configs that are all the baseline, {runs} runs; goal <= {FALSE_ALARMS:.0%}\n"
    )
    table(("noise", "blocks × prompts", "any gain", "any change", "adopted at +5 %"))
    missed = []
    for noise in NOISES:
        if noise.prompts or noise.loud != 1.0:
            continue
        for size in sizes:
            shares = false_alarms(rng, noise, size, runs)
            row((noise.name, times(size), *shares))
            if not all(within(share, 0.0, FALSE_ALARMS, runs) for share in shares):
                missed.append(f"false alarms, {noise.name}, {times(size)}")
    return missed


def _power_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 50 if quick else 300
    sizes = ((5, 5),) if quick else ((3, 4), (3, 8), (5, 5), (5, 8), (10, 8))
    print(f"\npower: adopts +{GAIN:.0%} where +5 % are wanted, {runs} runs each\n")
    table(("noise", *map(times, sizes)))
    stated = 0.0
    for noise in NOISES:
        if noise.name in ("white", STATED, "prompts and starts"):
            shares = {size: power(rng, noise, size, runs) for size in sizes}
            row((noise.name, *shares.values()))
            stated = shares[5, 5] if noise.name == STATED else stated
    return [] if within(stated, POWER, 1.0, runs) else [f"power at 5 × 5 is {stated:.0%}"]


def _asked_table(rng: np.random.Generator, *, quick: bool) -> list[str]:
    runs = 60 if quick else 600
    print(f"\nmore blocks: of {runs} runs each, those that 3 blocks could not tell\n")
    table(("noise", "gain", "asked", "blocks, median", "told", "told by half of them"))
    told = by_half = asked = 0
    for noise in (NOISES[0], NOISES[1], NOISES[2], Noise("prompts differ by 0.02", prompts=0.02)):
        for gain in (0.10, 0.15):
            each = more_blocks(rng, noise, 5, gain, runs)
            n = len(each.numbers)
            told, by_half, asked = told + each.told, by_half + each.told_by_half, asked + n
            shares = (
                (int(np.median(each.numbers)), each.told / n, each.told_by_half / n) if n else ("", "", "")
            )
            row((noise.name, f"{gain:+.0%}", n, *shares))
    row(("all", "", asked, "", told / asked, by_half / asked))
    enough = within(told / asked, POWER, 1.0, asked) and by_half / asked < told / asked - 0.1
    return [] if enough else ["more blocks"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
