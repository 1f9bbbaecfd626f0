"""The budget: what is kept fits, is a grid, and gives up what a verdict needs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.budget import Cut, Grid, fit
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.duration import parse
from pytest_ngram.matrix.plan import PlannedCell, plan

MATRIX = """
version: 1
warmup: hello
models:
  alpha: {{path: a.gguf}}
  beta: {{path: b.gguf, configs: [none, mtp1], prompt_sets: [code], blocks: 2}}
configs:
  none: {{}}
  mtp1: {{types: [draft-mtp]}}
  ngram-cache: {{types: [ngram-cache]}}
prompt_sets:
  chat: {{path: chat.yaml}}
  code: {{path: code.yaml}}
profiles:
  smoke: {{blocks: {blocks}, n_predict: 8, temperatures: [0, 0.7]}}
"""


@dataclass(frozen=True)
class Case:
    cells: list[PlannedCell]
    kinds: dict[str, str]
    start_s: float
    cell_s: float

    def cost(self, cells: Sequence[PlannedCell]) -> float:
        return self.start_s * len({cell.start for cell in cells}) + self.cell_s * len(cells)

    def fit(self, budget_s: float) -> Cut | None:
        try:
            return fit(self.cells, self.kinds, self.cost, budget_s)
        except OptionError:
            return None


def case(blocks: int, chat: int, code: int, start_s: float = 5.0, cell_s: float = 1.0) -> Case:
    prompts = {"chat": [f"chat{i}" for i in range(chat)], "code": [f"code{i}" for i in range(code)]}
    kinds = {name: "ab"[i % 2] for names in prompts.values() for i, name in enumerate(names)}
    return Case(
        plan(decode_matrix(MATRIX.format(blocks=blocks), "m.yaml"), "smoke", prompts), kinds, start_s, cell_s
    )


cases = st.builds(
    case,
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 5),
    st.floats(0, 20),
    st.floats(0.01, 20),
)
budgets = st.floats(0.1, 5000)


@given(cases, budgets)
def test_what_is_kept_fits_or_nothing_is(case: Case, budget_s: float) -> None:
    """The cells that are chosen take no longer than the budget; there are none if even the least does."""
    cut = case.fit(budget_s)
    least = fit(case.cells, case.kinds, case.cost, float("inf"))
    assert len(least.cells) == len(case.cells)
    if cut is None:
        first = [cell for cell in case.cells if cell.start.block == 1 and cell.prompt in ("chat0", "code0")]
        one = [cell for cell in first if (cell.start.model, cell.prompt) != ("alpha", "code0")]
        assert case.cost(one) > budget_s
    else:
        assert case.cost(cut.cells) == pytest.approx(cut.duration_s)
        assert cut.duration_s <= budget_s


@given(cases, budgets)
def test_what_is_kept_is_paired_and_whole(case: Case, budget_s: float) -> None:
    """All configs and passes of a model see the same prompts, blocks and temperatures, in order."""
    cut = case.fit(budget_s)
    if cut is None:
        return
    for model in ("alpha", "beta"):
        of_model = [cell for cell in case.cells if cell.start.model == model]
        kept = {cell.id for cell in cut.cells if cell.start.model == model}
        prompts = {cell.prompt for cell in of_model if cell.id in kept}
        blocks = {cell.start.block for cell in of_model if cell.id in kept}
        assert blocks == set(range(1, len(blocks) + 1))
        assert kept == {cell.id for cell in of_model if cell.prompt in prompts and cell.start.block in blocks}
        assert kept
    places = [case.cells.index(cell) for cell in cut.cells]
    assert places == sorted(places)


@given(cases, budgets, budgets)
def test_more_time_is_never_used_worse(case: Case, one_s: float, other_s: float) -> None:
    """A larger budget keeps at least as many of three blocks, then prompts, then blocks."""
    small, large = (case.fit(budget_s) for budget_s in sorted((one_s, other_s)))
    if small is not None:
        assert large is not None
        assert (min(small.blocks, 3), small.prompts, small.blocks) <= (
            min(large.blocks, 3),
            large.prompts,
            large.blocks,
        )


@given(cases, budgets)
def test_prompts_are_of_as_many_kinds_as_they_can_be(case: Case, budget_s: float) -> None:
    """No kind of a model's prompts has two before every kind has one."""
    cut = case.fit(budget_s)
    if cut is None:
        return
    for model in ("alpha", "beta"):

        def counts(cells: Sequence[PlannedCell], of: str = model) -> dict[tuple[str, str], int]:
            prompts = {(c.prompt_set, case.kinds[c.prompt], c.prompt) for c in cells if c.start.model == of}
            return {kind: len([p for p in prompts if p[:2] == kind]) for kind in {p[:2] for p in prompts}}

        kept, all_ = counts(cut.cells), counts(case.cells)
        if kept.keys() != all_.keys():
            assert max(kept.values()) == 1
            assert not cut.kinds


def test_three_blocks_are_kept_before_prompts() -> None:
    """Blocks above three go first, then prompts down to one, then the blocks that a verdict needs."""
    grid = case(5, 4, 1)
    whole = fit(grid.cells, grid.kinds, grid.cost, 1e9)
    assert (whole.blocks, whole.prompts) == (5, 5) == (whole.of_blocks, whole.of_prompts)
    seen = []
    for budget_s in range(int(whole.duration_s), 0, -1):
        cut = grid.fit(budget_s)
        if cut is not None and (cut.blocks, cut.prompts) not in seen:
            seen.append((cut.blocks, cut.prompts))
    assert seen.index((3, 5)) < seen.index((3, 1)) < seen.index((1, 1))
    assert all(blocks >= 3 for blocks, _ in seen[: seen.index((3, 1))])


def test_a_budget_that_is_too_small_gives_the_numbers() -> None:
    """The error says what the least is, what a verdict needs, and which budget would do."""
    grid = case(5, 2, 1)
    with pytest.raises(OptionError) as caught:
        fit(grid.cells, grid.kinds, grid.cost, 10)
    text = str(caught.value)
    assert "the least, 1 block with 1 prompt" in text
    assert "3 blocks, which a verdict needs" in text
    proposed = text.split("--ngram-budget=")[1].split(" ", maxsplit=1)[0]
    assert fit(grid.cells, grid.kinds, grid.cost, parse(proposed, "--ngram-budget")).blocks >= 3


def test_no_cells_fit_any_budget() -> None:
    """Where `-k` left no cell, there is nothing to give up."""
    assert fit([], {}, lambda cells: 0.0, 1).cells == ()


def test_the_longest_prompts_stay() -> None:
    """Of each kind the prompt with most to do is kept, and of all kinds first the one with most."""
    grid = case(3, 4, 1)
    sizes = {
        ("alpha", "chat3"): (40.0, 5.0),
        ("alpha", "chat2"): (40.0, 9.0),
        ("alpha", "code0"): (7.0, 99.0),
    }
    least = fit(grid.cells, grid.kinds, grid.cost, 400, sizes=sizes)
    assert least.names["alpha"][:3] == ("chat2", "chat3", "code0")[: least.prompts]
    one = Grid(grid.cells, grid.kinds, sizes).cut(3, 1, grid.cost)
    assert one.names == {"alpha": ("chat2",), "beta": ("code0",)}
    assert {cell.prompt for cell in one.cells} == {"chat2", "code0"}


def test_what_was_chosen_before_stays_first() -> None:
    """A resumed run keeps the prompts that it has measured, whatever their answers turned out to be."""
    grid = case(3, 4, 1)
    sizes = {("alpha", "chat3"): (40.0,)}
    before = {"alpha": ("chat1", "chat0")}
    assert Grid(grid.cells, grid.kinds, sizes, before).cut(3, 3, grid.cost).names["alpha"] == (
        "chat1",
        "chat0",
        "chat3",
    )
