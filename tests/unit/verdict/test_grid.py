"""Cells to a grid: what is paired, what is left out, and that a missing cell moves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.verdict.grid import gap, pair
from pytest_ngram.verdict.samples import Sample

Cells = Callable[..., list[Sample]]


def test_the_baseline_is_the_mean_of_both_passes_on_the_log_scale(cells: Cells) -> None:
    """log(base ÷ own), with the geometric mean of first and last as the base."""
    base = cells("none", [[0.0]], pass_="first") + cells("none", [[0.2]], pass_="last")
    grid = pair(cells("x", [[-0.3]]), base)
    assert grid is not None
    assert grid.ratios == pytest.approx(np.array([[0.4]]))


def test_one_pass_alone_is_no_baseline(cells: Cells) -> None:
    """Where the run has two passes, a cell of which one is missing has no pair: half a drift is none."""
    first = cells("none", [[0.0, 0.0]] * 3, pass_="first")
    last = [s for s in cells("none", [[0.2, 0.2]] * 3, pass_="last") if (s.block, s.prompt) != (2, "p1")]
    grid = pair(cells("x", [[0.0, 0.0]] * 3), first + last)
    assert grid is not None
    assert grid.filled == 1
    assert grid.ratios == pytest.approx(np.full((3, 2), 0.1))


def test_the_worked_examples_of_what_goes(cells: Cells) -> None:
    """Stopped after p in block 3: the block goes. q crashed in blocks 2 and 3: the prompt goes."""
    base = cells("none", [[0.0, 1.0, 2.0]] * 3)
    own = cells("x", [[0.0, 1.0, 2.0]] * 3)
    stopped = pair([s for s in own if s.block < 3 or s.prompt == "p0"], base)
    assert stopped is not None
    assert (stopped.blocks, stopped.prompts, stopped.lost_blocks) == ((1, 2), ("p0", "p1", "p2"), (3,))
    crashed = pair([s for s in own if s.prompt != "p1" or s.block == 1], base)
    assert crashed is not None
    assert (crashed.blocks, crashed.prompts, crashed.lost_prompts) == ((1, 2, 3), ("p0", "p2"), ("p1",))


def test_nothing_shared_is_no_grid(cells: Cells) -> None:
    """Other prompts, or no cell that enters: None, never a ratio."""
    assert pair(cells("x", [[0.0]]), [s for s in cells("none", [[0.0, 0.0]]) if s.prompt == "p1"]) is None
    assert pair(cells("x", [[0.0]], status="crash"), cells("none", [[0.0]])) is None


logs = st.floats(-1, 1)


@given(
    st.lists(logs, min_size=3, max_size=6),
    st.lists(logs, min_size=3, max_size=6),
    st.data(),
)
def test_a_missing_cell_never_biases(
    by_block: list[float], by_prompt: list[float], data: st.DataObject
) -> None:
    """Where log ratios are block + prompt, any cells may be missing: those kept tell the mean of the whole.

    Prompts differ a lot in how much a config gains, and a plain mean of what is left would move with them.
    """
    truth = np.add.outer(np.array(by_block), np.array(by_prompt))
    n = truth.size
    missing = data.draw(st.sets(st.integers(0, n - 1), max_size=n // 4))
    own = [
        Sample(
            model="m",
            temperature=0.0,
            config="x",
            prompt=f"p{p}",
            block=b + 1,
            seconds=math.exp(-truth[b, p]),
        )
        for i, (b, p) in enumerate(np.ndindex(*truth.shape))
        if i not in missing
    ]
    base = [
        Sample(model="m", temperature=0.0, config="none", prompt=f"p{p}", block=b + 1, seconds=1.0)
        for b, p in np.ndindex(*truth.shape)
    ]
    grid = pair(own, base)
    assert grid is not None
    rows, columns = [b - 1 for b in grid.blocks], [int(p[1:]) for p in grid.prompts]
    assert grid.ratios == pytest.approx(truth[np.ix_(rows, columns)], abs=1e-9)


def test_tokens_are_a_mean_of_both_sides(cells: Cells) -> None:
    """Both sides weigh alike, so that an exchange of the two changes no weight; unknown ones weigh alike."""
    own = cells("x", [[0.0, 0.0]], tokens=30)
    base = cells("none", [[0.0, 0.0]], tokens=10)
    grid = pair(own, base)
    assert grid is not None
    assert grid.tokens.tolist() == [20.0, 20.0]
    unknown = pair(cells("x", [[0.0, 0.0]], tokens=None), cells("none", [[0.0, 0.0]], tokens=None))
    assert unknown is not None
    assert unknown.tokens.tolist() == [1.0, 1.0]


def test_the_gap_is_of_the_prompts_that_both_passes_have(cells: Cells) -> None:
    """log of last ÷ first, mean over prompts, a number a block; None without both passes."""
    first = cells("none", [[0.0, 1.0], [0.0, 1.0]], pass_="first")
    last = cells("none", [[0.1, 1.3], [0.1, 9.0]], pass_="last")
    found = gap(first + [s for s in last if (s.block, s.prompt) != (2, "p1")])
    assert found is not None
    assert found.per_block == pytest.approx((0.2, 0.1))
    assert gap(first) is None
