"""Changes of figures between two runs: how often their doubt holds the truth, and what goes into them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from pytest_ngram.record import Memory, RunData
from pytest_ngram.verdict.bounds import check, parse, reach
from pytest_ngram.verdict.comparison import compare
from pytest_ngram.verdict.figures import gain, memory, seconds, speed
from pytest_ngram.verdict.grid import gap
from pytest_ngram.verdict.interval import Gap
from pytest_ngram.verdict.samples import Sample

RUNS = 300
PROMPTS = ("p", "q", "r", "s")
BLOCKS = (1, 2, 3)
Side = list[Sample]
Make = Callable[..., RunData]


def a_sample(config: str, block: int, prompt: str, value: float, pass_: str) -> Sample:
    return Sample(
        model="m",
        temperature=0.0,
        config=config,
        prompt=prompt,
        block=block,
        pass_=pass_,  # type: ignore[arg-type]  # one of the two
        seconds=value,
        rss_mb=100.0,
    )


def a_side(random: np.random.Generator, config: str, change: float, drift: float) -> Side:
    """Three blocks on servers that differ by 2 %, cells by 1 %, prompts by tens of percent."""
    passes = ("first", "last") if config == "none" else ("first",)
    made = []
    for block in BLOCKS:
        for pass_ in passes:
            start = random.normal(drift, 0.02)
            for n, prompt in enumerate(PROMPTS):
                log = start + random.normal(0, 0.01) + 0.3 * n - np.log1p(change)
                made.append(a_sample(config, block, prompt, float(np.exp(log)), pass_))
    return made


def both_gaps(old: Side, new: Side) -> Gap:
    found = [gap(side) for side in (old, new)]
    return Gap(tuple(each for one in found if one is not None for each in one.per_block))


def test_a_bound_that_is_just_reached_is_seldom_told_either_way() -> None:
    """Slower by exactly the bound: told as beyond it, or as clear of it, in at most 5 % of runs each."""
    random, truth = np.random.default_rng(1), -0.05
    below = above = 0
    for _ in range(RUNS):
        old, new = (a_side(random, "mtp1", change, 0.0) for change in (0.0, truth))
        apart = both_gaps(*(a_side(random, "none", 0.0, 0.0) for _ in range(2)))
        low, high = reach(speed(old, new, seconds, apart, 0.05))
        below += high < truth
        above += low > truth
    assert below / RUNS <= 0.05
    assert above / RUNS <= 0.05


def test_the_gain_leaves_out_what_the_host_did() -> None:
    """All is 20 % slower in the new run: the ratio to none may be what it was in 93 % of runs at least."""
    random = np.random.default_rng(2)
    held = 0
    for _ in range(RUNS):
        configs = {
            name: (a_side(random, name, 0.0, 0.0), a_side(random, name, 0.0, 0.2))
            for name in ("none", "mtp1")
        }
        found = gain(configs, "mtp1", "none", both_gaps(*configs["none"]), 0.05)
        low, high = reach(found)
        held += low <= 0 <= high
    assert held / RUNS >= 0.93


def test_a_difference_that_matters_is_told() -> None:
    """A loss of 30 % is beyond a bound of 5 % in most runs of this noise."""
    random = np.random.default_rng(3)
    told = 0
    for _ in range(RUNS):
        old, new = (a_side(random, "mtp1", change, 0.0) for change in (0.0, -0.3))
        apart = both_gaps(*(a_side(random, "none", 0.0, 0.0) for _ in range(2)))
        told += reach(speed(old, new, seconds, apart, 0.05))[1] < -0.05
    assert told / RUNS >= 0.9


def test_memory_is_that_of_the_largest_cell() -> None:
    """What the machine has to have: 100 and 130 MiB in a block are 130, and 143 is 10 % more."""

    def side(most: float) -> Side:
        return [
            Sample(
                model="m",
                temperature=0.0,
                config="mtp1",
                prompt=prompt,
                block=block,
                seconds=1.0,
                rss_mb=mb,
            )
            for block in BLOCKS
            for prompt, mb in (("p", 100.0), ("q", most))
        ]

    found = memory(side(130.0), side(143.0), 0.05)
    assert (found.old, found.new) == (130.0, 143.0)
    assert found.change == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert found.blocks == 3


@pytest.mark.parametrize("blocks", [3, 5, 10])
def test_memory_that_grew_in_one_block_alone_is_in_its_interval(make_run: Make, blocks: int) -> None:
    """The largest of all blocks is what is told, so the interval is around it and not around their mean."""
    old = make_run(blocks=blocks)
    grown = Memory(rss_anon_mb=250.0, rss_file_mb=50.0, rss_peak_mb=None, majflt=0)
    new = replace(
        old, records=tuple(replace(r, memory=grown) if r.cell.block == 2 else r for r in old.records)
    )
    for config in compare(old, new).models[0].configs:
        rss = config.figures["rss"]
        assert rss.change == pytest.approx(1.0)
        assert rss.low is not None
        assert rss.high is not None
        assert rss.low < 1.0 < rss.high
    assert check(compare(old, new), parse("rss:+50%")).outcome != "pass"
