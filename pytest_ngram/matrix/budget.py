"""Which cells to keep so that a run fits the time there is. Pure.

Blocks are the independent samples and fewer than three can never give a verdict, so prompts are given up
before the third block is, and blocks above the third before prompts. What is kept is a grid: the same prompts
for every config of a model, in the first blocks; both passes of the baseline, and all temperatures, stay.
Of the prompts those stay that have most to do, since a short answer tells least of how fast it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.duration import said, written
from pytest_ngram.matrix.plan import PlannedCell

VERDICT_BLOCKS = 3

Cost = Callable[[Sequence[PlannedCell]], float]
Sizes = Mapping[tuple[str, str], tuple[float, ...]]
_NO_SIZES: Sizes = MappingProxyType({})
_NO_NAMES: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True)
class Cut:
    """What was chosen: this many blocks, and prompts of each model, of those that there are.

    Args:
        cells: what is kept, in order.
        duration_s: what it takes.
        kinds: whether each kind of prompt still has one.
        names: by model, the prompts that stay, those with most to do first.
    """

    cells: tuple[PlannedCell, ...]
    blocks: int
    prompts: int
    of_cells: int
    of_blocks: int
    of_prompts: int
    kinds: bool
    names: Mapping[str, tuple[str, ...]]
    duration_s: float


class Grid:
    """The cells of a run by block and prompt.

    Args:
        cells: in the order in which they run; what `-k` left.
        kinds: the kind of each prompt, by its id.
        sizes: by model and prompt, how much there is to do; prompts with more are kept first.
        before: by model, prompts that were chosen already: they stay before all others, in this order.
    """

    def __init__(
        self,
        cells: Sequence[PlannedCell],
        kinds: Mapping[str, str],
        sizes: Sizes = _NO_SIZES,
        before: Mapping[str, Sequence[str]] = _NO_NAMES,
    ) -> None:
        self.cells = tuple(cells)
        self._kinds = kinds
        self._blocks: dict[str, list[int]] = {}
        self._prompts: dict[str, list[str]] = {}
        for model, part in _by_model(cells).items():
            self._blocks[model] = sorted({planned.start.block for planned in part})
            # prompts out of a corpus are no part of the grid: they stay with whatever is kept
            real = [each for each in part if not each.is_echo] or part
            turns = _in_turn(
                {each.prompt: (each.prompt_set, self._kind(each.prompt)) for each in real},
                {prompt: sizes.get((model, prompt), ()) for prompt in {each.prompt for each in real}},
            )
            chosen = [prompt for prompt in before.get(model, ()) if prompt in turns]
            self._prompts[model] = [*chosen, *(prompt for prompt in turns if prompt not in chosen)]
        self.blocks = max(map(len, self._blocks.values()), default=0)
        self.prompts = max(map(len, self._prompts.values()), default=0)

    def take(self, blocks: int, prompts: int) -> tuple[PlannedCell, ...]:
        """Return the cells of each model's first blocks and prompts, in order."""
        kept_blocks = {model: set(all_[:blocks]) for model, all_ in self._blocks.items()}
        kept_prompts = {model: set(all_[:prompts]) for model, all_ in self._prompts.items()}
        return tuple(
            planned
            for planned in self.cells
            if planned.start.block in kept_blocks[planned.start.model]
            and (planned.is_echo or planned.prompt in kept_prompts[planned.start.model])
        )

    def cut(self, blocks: int, prompts: int, cost: Cost) -> Cut:
        """Return the same with what was given up and what is left costs."""
        cells = self.take(blocks, prompts)
        return Cut(
            cells=cells,
            blocks=min(blocks, self.blocks),
            prompts=min(prompts, self.prompts),
            of_cells=len(self.cells),
            of_blocks=self.blocks,
            of_prompts=self.prompts,
            kinds=self._kinds_of(cells) == self._kinds_of(self.cells),
            names={model: tuple(all_[:prompts]) for model, all_ in self._prompts.items()},
            duration_s=cost(cells),
        )

    def _kind(self, prompt: str) -> str:
        return self._kinds.get(prompt, "")

    def _kinds_of(self, cells: Iterable[PlannedCell]) -> set[tuple[str, str, str]]:
        return {(each.start.model, each.prompt_set, self._kind(each.prompt)) for each in cells}


def fit(
    cells: Sequence[PlannedCell],
    kinds: Mapping[str, str],
    cost: Cost,
    budget_s: float,
    *,
    sizes: Sizes = _NO_SIZES,
    before: Mapping[str, Sequence[str]] = _NO_NAMES,
) -> Cut:
    """Return what to measure within a budget.

    Args:
        cells: what would run, in order.
        kinds: the kind of each prompt, by its id.
        cost: seconds of some cells; more cells must not cost less.
        budget_s: what there is.
        sizes, before: as `Grid` takes them.

    Raises:
        OptionError: not even one block with one prompt of each model fits.
    """
    grid = Grid(cells, kinds, sizes, before)
    if not cells:
        return grid.cut(0, 0, cost)

    def fits(blocks: int, prompts: int) -> bool:
        return cost(grid.take(blocks, prompts)) <= budget_s

    for least_blocks in range(min(VERDICT_BLOCKS, grid.blocks), 0, -1):
        prompts = _most(grid.prompts, partial(fits, least_blocks))
        if prompts:
            blocks = _most(grid.blocks, partial(fits, prompts=prompts))
            return grid.cut(blocks, prompts, cost)
    raise _too_small(grid, cost, budget_s)


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 on that fits, where a smaller one fits whenever a larger does; 0 for none."""
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _in_turn(kinds: Mapping[str, tuple[str, str]], sizes: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Prompts so ordered that the first n are of as many kinds as n prompts can be: one of each in turn.

    Within a kind, and within a turn, those with more to do come first.
    """
    turns: dict[tuple[str, str], int] = {}
    turn_of = {}
    by_size = sorted(kinds, key=lambda prompt: sizes[prompt], reverse=True)  # stable: equal ones as they were
    for prompt in by_size:
        kind = kinds[prompt]
        turn_of[prompt] = turns[kind] = turns.get(kind, -1) + 1
    return sorted(by_size, key=lambda prompt: turn_of[prompt])


def _by_model(cells: Sequence[PlannedCell]) -> dict[str, list[PlannedCell]]:
    parts: dict[str, list[PlannedCell]] = {}
    for planned in cells:
        parts.setdefault(planned.start.model, []).append(planned)
    return parts


def _too_small(grid: Grid, cost: Cost, budget_s: float) -> OptionError:
    least = grid.take(1, 1)
    checked = [f"the budget: {said(budget_s)}", _described("the least, 1 block with 1 prompt", least, cost)]
    checked += [
        _described(f"of it {model}", part, cost)
        for model, part in _by_model(least).items()
        if len(part) < len(least)
    ]
    wanted_s = cost(least)
    if grid.blocks >= VERDICT_BLOCKS:
        enough = grid.take(VERDICT_BLOCKS, 1)
        checked.append(_described(f"{VERDICT_BLOCKS} blocks, which a verdict needs", enough, cost))
        wanted_s = cost(enough)
    return OptionError(
        "the budget is too small for the least that can be measured",
        checked=checked,
        fix=f"give --ngram-budget={written(wanted_s)} or more, or choose fewer models or configs "
        "(--ngram-models, -k)",
    )


def _described(what: str, cells: Sequence[PlannedCell], cost: Cost) -> str:
    starts = len({planned.start.id for planned in cells})
    return f"{what}: {len(cells)} cells on {starts} server starts, {said(cost(cells))}"
