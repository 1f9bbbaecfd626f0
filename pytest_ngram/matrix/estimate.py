"""How long cells will take, from what was measured before. Pure.

Seconds = starts × (load + warm-up) + requests × (prompt + generation + what a request takes besides) + what
stands between cells. Nothing is guessed: a model of which nothing was measured has no duration. Where another
config's figures stand for a config's own, its requests count for `MARGIN` more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_ngram.matrix.plan import PlannedCell, Start
from pytest_ngram.matrix.spec import BASELINE
from pytest_ngram.matrix.timings import Answer, Source, Timing
from pytest_ngram.record import Cell

# A config that drafts in vain is slower than the baseline that stands for it, seldom by more than this.
MARGIN = 0.25


@dataclass(frozen=True)
class Origin:
    """Where a config's figures come from: the label of the source, and the config that they are of."""

    label: str
    config: str


@dataclass(frozen=True)
class ModelEstimate:
    """What one model's part of a run takes.

    Args:
        starts, cells: how many servers are started and cells measured; restored cells are left out.
        tokens: what is generated at most: cells × rounds × n_predict.
        prompt_tokens: of the prompts whose length is known.
        unknown_prompts: prompts whose length is not known; they count as the mean of those that are.
        uncounted: the length of no prompt is known, so none is counted: the duration is a lower bound.
        load_s: mean seconds until a server is ready; None where unknown.
        duration_s: all of it; None where nothing was measured on the model.
        origins: by config, where its figures come from.
    """

    model: str
    starts: int
    cells: int
    tokens: int
    prompt_tokens: int
    unknown_prompts: int
    uncounted: bool
    load_s: float | None
    duration_s: float | None
    origins: Mapping[str, Origin]


@dataclass(frozen=True)
class Estimate:
    """What a run takes, by model in the order in which they run; `restored` cells take nothing."""

    models: tuple[ModelEstimate, ...]
    restored: int

    @property
    def unknown(self) -> tuple[str, ...]:
        """The models of which nothing was measured."""
        return tuple(part.model for part in self.models if part.duration_s is None)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """The models whose durations leave out the prompts."""
        return tuple(part.model for part in self.models if part.uncounted)

    @property
    def known_s(self) -> float:
        """Seconds of the models that are known."""
        return sum(part.duration_s or 0.0 for part in self.models)

    @property
    def duration_s(self) -> float | None:
        """Seconds of all of it; None where a model is unknown."""
        return None if self.unknown else self.known_s


class Estimator:
    """Looks timings up.

    Args:
        sources: the best first. A config's own figures are looked for in all of them before those of the
            baseline are taken in its place, and then those of any config of its model.
        settle_s: how long it is rested before each start.
    """

    def __init__(self, sources: Sequence[Source], settle_s: float = 0.0) -> None:
        self._sources = sources
        self._settle_s = settle_s
        self._found: dict[tuple[str, str], tuple[Timing, Origin] | None] = {}
        self._units: dict[tuple[str, str, str, int], float | None] = {}

    def timing(self, model: str, config: str) -> tuple[Timing, Origin] | None:
        """Return the figures of a config with a measured request, and where they come from."""
        key = (model, config)
        if key not in self._found:
            self._found[key] = self._find(model, config)
        return self._found[key]

    def start_s(self, model: str, config: str) -> tuple[float, float] | None:
        """Return the seconds of a load, and of a load with its warm-up; None where none was measured."""
        for name in (config, BASELINE, None):
            for source in self._sources:
                found = _of(source, model, name)
                if found is not None and found.start_s is not None and found.mean_load_s is not None:
                    return found.mean_load_s, found.start_s
        return None

    def answer(self, model: str, prompt: str) -> Answer | None:
        """Return what a prompt became; None where it was not seen."""
        for source in self._sources:
            known = source.models.get(model)
            if known is not None and prompt in known.prompts:
                return known.prompts[prompt]
        return None

    def mean_prompt_n(self, model: str) -> float | None:
        """Return the mean length of a model's prompts that are known; None where none is."""
        known: dict[str, int] = {}
        for source in self._sources:
            if model in source.models:
                known = {name: each.prompt_n for name, each in source.models[model].prompts.items()} | known
        return sum(known.values()) / len(known) if known else None

    def sizes(
        self, cells: Iterable[PlannedCell], lengths: Mapping[str, int]
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """Return how much there is to do for each model and prompt: tokens of the answer, size of the prompt.

        Args:
            cells: of the run.
            lengths: the characters of each prompt, for a model whose prompts are not all known in tokens.

        Answers count only for a model on which all prompts were answered before; otherwise they are 0.
        """
        by_model: dict[str, dict[str, PlannedCell]] = {}
        for planned in cells:
            by_model.setdefault(planned.start.model, {})[planned.prompt] = planned
        sizes: dict[tuple[str, str], tuple[float, float]] = {}
        for model, prompts in by_model.items():
            known = {name: self.answer(model, name) for name in prompts}
            answered = all(each is not None and each.rounds for each in known.values())
            counted = all(known.values())
            for name, each in known.items():
                tokens = each.tokens(prompts[name].n_predict) if each is not None and answered else 0
                length = each.prompt_n if each is not None and counted else lengths.get(name, 0)
                sizes[model, name] = (tokens, length)
        return sizes

    def cell_s(self, planned: PlannedCell) -> float | None:
        """Return the seconds of a cell without its start; None where its model is unknown."""
        model, config = planned.start.model, planned.start.config
        key = (model, config, planned.prompt, planned.n_predict)
        if key not in self._units:
            self._units[key] = self._request_s(planned)
        request_s = self._units[key]
        return None if request_s is None else request_s * planned.rounds + self._between_s(model)

    def total_s(
        self, cells: Iterable[PlannedCell], restored: Collection[Cell] = (), running: Collection[Start] = ()
    ) -> float:
        """Return the seconds of cells with their starts; what is unknown counts nothing.

        Args:
            cells: in any order.
            restored: those of them that take nothing.
            running: starts that have been made already.
        """
        total_s, starts = 0.0, set()
        for planned in cells:
            if restored and planned.cell in restored:
                continue
            starts.add(planned.start)
            total_s += self.cell_s(planned) or 0.0
        for start in starts.difference(running):
            found = self.start_s(start.model, start.config)
            total_s += self._settle_s + (found[1] if found is not None else 0.0)
        return total_s

    def _find(self, model: str, config: str) -> tuple[Timing, Origin] | None:
        for name in (config, BASELINE, None):
            for source in self._sources:
                found = _of(source, model, name)
                if found is not None and found.request_s(None, 1) is not None:
                    return found, Origin(source.label, name if name is not None else "its other configs")
        return None

    def _request_s(self, planned: PlannedCell) -> float | None:
        found = self.timing(planned.start.model, planned.start.config)
        if found is None:
            return None
        timing, origin = found
        answer = self.answer(planned.start.model, planned.prompt)
        tokens = answer.tokens(planned.n_predict) if answer is not None else planned.n_predict
        length = answer.prompt_n if answer is not None else self.mean_prompt_n(planned.start.model)
        request_s = timing.request_s(length or 0, tokens)
        stands_in = origin.config != planned.start.config
        return request_s * (1 + MARGIN) if request_s is not None and stands_in else request_s

    def _between_s(self, model: str) -> float:
        for source in self._sources:
            known = source.models.get(model)
            if known is not None and known.between.per_cell_s is not None:
                return known.between.per_cell_s
        return 0.0


def estimate(
    cells: Sequence[PlannedCell],
    restored: Collection[Cell],
    sources: Sequence[Source],
    settle_s: float = 0.0,
) -> Estimate:
    """Return what a run takes.

    Args:
        cells: those of the run, in order.
        restored: those of them that a journal already holds.
        sources: timings, the best first.
        settle_s: how long it is rested before each start.
    """
    estimator = Estimator(sources, settle_s)
    by_model: dict[str, list[PlannedCell]] = {}
    for planned in cells:
        if planned.cell not in restored:
            by_model.setdefault(planned.start.model, []).append(planned)
    taken = len(cells) - sum(map(len, by_model.values()))
    return Estimate(tuple(_model(name, part, estimator) for name, part in by_model.items()), taken)


def _model(name: str, cells: Sequence[PlannedCell], estimator: Estimator) -> ModelEstimate:
    starts = {planned.start.id: planned.start.config for planned in cells}
    loads = [estimator.start_s(name, config) for config in starts.values()]
    known_loads = [found[0] for found in loads if found is not None]
    answers = [(planned, estimator.answer(name, planned.prompt)) for planned in cells]
    found = {config: estimator.timing(name, config) for config in dict.fromkeys(starts.values())}
    known = all(found.values()) and len(known_loads) == len(loads)
    return ModelEstimate(
        model=name,
        starts=len(starts),
        cells=len(cells),
        tokens=sum(planned.rounds * planned.n_predict for planned in cells),
        prompt_tokens=sum(planned.rounds * answer.prompt_n for planned, answer in answers if answer),
        unknown_prompts=len({planned.prompt for planned, answer in answers if answer is None}),
        uncounted=known and estimator.mean_prompt_n(name) is None,
        load_s=sum(known_loads) / len(loads) if len(known_loads) == len(loads) else None,
        duration_s=estimator.total_s(cells) if known else None,
        origins={config: each[1] for config, each in found.items() if each is not None},
    )


def _of(source: Source, model: str, config: str | None) -> Timing | None:
    """A config's figures in one source; None as config means all of the model's added up."""
    known = source.models.get(model)
    if known is None:
        return None
    if config is not None:
        return known.configs.get(config)
    return sum(known.configs.values(), Timing()) if known.configs else None
