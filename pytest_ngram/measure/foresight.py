"""What is known before a run: timings from earlier ones, the estimate, and the cells that fit a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import NgramError
from pytest_ngram.matrix.budget import Cut, Grid, fit
from pytest_ngram.matrix.estimate import Estimate, Estimator, estimate
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.timings import Gathered, ModelTimings, Source, gather
from pytest_ngram.measure import remembered
from pytest_ngram.measure.journal import Budget
from pytest_ngram.measure.ledger import Ledger
from pytest_ngram.measure.past import read_past
from pytest_ngram.measure.probe import Chats
from pytest_ngram.measure.setup import Setup

Warn = Callable[[str], None]
Probe = Callable[[str, Gathered, Chats], str]


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Args:
        estimate_from: a saved run or a journal to estimate from.
        probe: whether a model of which nothing is known may be started to find out.
        budget_s: what the run may take.
        cache: the folder in which what this host measured is kept.
        settle_s: how long it is rested before each server.
    """

    estimate_from: Path | None
    probe: bool
    budget_s: float | None
    cache: Path
    settle_s: float = 0.0


class Foresight:
    """Knows timings from before the run.

    Args:
        asked: what the user asked for.
        setup: the matrix and its cells.
        factory: tells which engine will answer.
        ledger: what a journal that is resumed holds.
        probe: measures one model quickly into what it is given, and the lengths of prompts.
        warn: called with what the user should know.
    """

    def __init__(
        self, asked: Asked, setup: Setup, factory: Factory, ledger: Ledger, *, probe: Probe, warn: Warn
    ) -> None:
        self.notes: list[str] = []
        self.cut: Cut | None = None
        self.probing = False  # whether a probe was begun
        self._asked = asked
        self._setup = setup
        self._factory = factory
        self._ledger = ledger
        self._probe = probe
        self._warn = warn
        self._named = read_past(asked.estimate_from) if asked.estimate_from is not None else None
        wanted = {cell.start.model for cell in setup.cells}
        if self._named is not None and not wanted.intersection(self._named.models):
            has = ", ".join(self._named.models)
            self.notes.append(f"{self._named.label} tells of no model of this run, only of {has}")
        self._probed = Gathered()

    @property
    def budget_s(self) -> float | None:
        """What the run may take; None where no budget was given."""
        return self._asked.budget_s

    @property
    def sources(self) -> list[Source]:
        """Timings, the best first."""
        named = [self._named] if self._named is not None else []
        return [*named, *self._of_journal, *self._remembered, Source("the probe", self._probed.models)]

    def estimate(self, cells: Sequence[PlannedCell]) -> Estimate:
        """Return what cells take; those that the journal holds take nothing."""
        restored = self._ledger.restorable(cells, self._setup.matrix)
        return estimate(cells, restored, self.sources, self._asked.settle_s)

    def prepare(self, cells: Sequence[PlannedCell], *, only_look: bool) -> None:
        """Probe the models of which nothing, or no prompt, is known: if asked to, or if a budget needs it.

        Args:
            cells: what will run.
            only_look: nothing will be measured, so no server is started unless a probe was asked for.
        """
        found = self.estimate(cells)
        unknown = (*found.unknown, *found.uncounted)
        wanted = self._asked.probe or (self._asked.budget_s is not None and not only_look)
        if not unknown or not wanted:
            return
        self.probing = True
        if not self._asked.probe:
            self.notes.append("the budget needs timings, so models of which nothing is known are probed")
        for model in unknown:
            try:
                seen = self._probe(model, self._probed, self._chats(model))
                self.notes.append(f"probed {model}: {seen}; one start and request")
            except NgramError as error:
                self._warn(f"the probe of {model} failed: {error.cause}")
        self.remember(self._probed.models)

    def fit(self, cells: Sequence[PlannedCell]) -> Cut | None:
        """Return what fits the budget; None where there is no budget, or nothing to reckon with.

        Raises:
            OptionError: not even the least fits.
        """
        budget_s = self._asked.budget_s
        if budget_s is None:
            return None
        found = self.estimate(cells)
        if cells and len(found.unknown) == len(found.models) > 0:
            self.notes.append("the budget cannot be kept: nothing is known; --ngram-probe finds out")
            return None
        if found.unknown:
            self.notes.append(f"the budget leaves out of account: {', '.join(found.unknown)}")
        estimator = Estimator(self.sources, self._asked.settle_s)
        kinds = {p.id: p.kind for prompts in self._setup.prompt_sets.values() for p in prompts.prompts}

        def cost(chosen: Sequence[PlannedCell]) -> float:
            return estimator.total_s(chosen, self._ledger.restorable(chosen, self._setup.matrix))

        sizes = estimator.sizes(cells, self._lengths())
        chosen = self._ledger.saved_budget.names if self._ledger.saved_budget is not None else {}
        cut = self._as_before(Grid(cells, kinds, sizes, chosen), cost, budget_s) or fit(
            cells, kinds, cost, budget_s, sizes=sizes, before=chosen
        )
        self.cut = cut
        self._ledger.budget = Budget(budget_s, cut.blocks, cut.prompts, dict(cut.names))
        return cut

    def remember(self, measured: dict[str, ModelTimings]) -> None:
        """Keep what was measured for later estimates on this host."""
        for name, timings in measured.items():
            place = self._place(name)
            if place is not None:
                remembered.remember(place, timings, self._warn)

    def _chats(self, model: str) -> Chats:
        """The prompts of a model, those too that `-k` left out: a later run may want them."""
        return {
            cell.prompt: self._setup.chat_of(cell) for cell in self._setup.cells if cell.start.model == model
        }

    def _lengths(self) -> dict[str, int]:
        """The characters of each prompt."""
        return {
            prompt.id: sum(len(message.content) for message in prompt.messages)
            for prompts in self._setup.prompt_sets.values()
            for prompt in prompts.prompts
        }

    def _as_before(
        self, grid: Grid, cost: Callable[[Sequence[PlannedCell]], float], budget_s: float
    ) -> Cut | None:
        """The choice of the run that is resumed, if the budget is the same and what is left still fits."""
        before = self._ledger.saved_budget
        if before is None or before.budget_s != budget_s:
            return None
        cut = grid.cut(before.blocks, before.prompts, cost)
        if cut.duration_s > budget_s:
            return None
        self.notes.append("blocks and prompts are those that the resumed run had chosen")
        return cut

    @cached_property
    def _of_journal(self) -> list[Source]:
        saved = self._ledger.saved
        return [Source("the journal", gather(saved.cells, saved.starts))] if saved is not None else []

    @cached_property
    def _remembered(self) -> list[Source]:
        models: dict[str, ModelTimings] = {}
        dates = set()
        for name in dict.fromkeys(cell.start.model for cell in self._setup.cells):
            place = self._place(name)
            found = remembered.recall(place, self._warn) if place is not None else None
            if found is not None:
                models[name] = found[0]
                dates.add(found[1])
        return [Source(f"{remembered.LABEL} (last {max(dates)})", models)] if models else []

    @cached_property
    def _engine(self) -> str | None:
        try:
            return remembered.engine_key(self._factory, self._asked.cache)
        except (NgramError, OSError):
            return None  # it will be told when it is started

    def _place(self, model: str) -> remembered.Place | None:
        if self._engine is None:
            return None
        return remembered.place_of(
            self._asked.cache, model, self._setup.matrix, self._setup.base, self._engine
        )
