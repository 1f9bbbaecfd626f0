"""The part of a report that is of one model at one temperature: answer, table, floor, plots, cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_ngram.record import ECHO, ServerStart
from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.gates import gates_line
from pytest_ngram.report.numbers import UNKNOWN, between, number
from pytest_ngram.report.page.cells import Cells
from pytest_ngram.report.page.costs import acceptance_figure, curve_figure, load_figure, memory_figure
from pytest_ngram.report.page.part import Part
from pytest_ngram.report.page.speeds import change_figure, drift_figure, prompts_figure, tg_figure
from pytest_ngram.report.page.types import Figure, Head, Judged, ModelPart, Shown, Table, Td
from pytest_ngram.verdict.samples import DISTURBED, NOT_TIMED
from pytest_ngram.verdict.summary import ModelSummary, Row, summarise
from pytest_ngram.verdict.types import Effect, Estimate, ModelVerdict, Settings

_HEAD = ("change", "tg", "acceptance", "per-step", "pp", "rss", "cells")


def model_part(
    model: ModelVerdict, own_id: str, shown: Shown, styles: dict[str, int], texts: Catalogue
) -> ModelPart:
    """Return the part.

    Args:
        model: the verdict.
        own_id: of the part, which all its ids begin with.
        shown: what the report is of.
        styles: of the configs, the same in all plots.
        texts: words.
    """
    key = (model.model, model.temperature)
    own = [record for record in shown.records if (record.cell.model, record.cell.temperature) == key]
    cells = Cells(own_id, own, shown.config_order)
    settings = shown.verdict.settings
    part = Part(own_id, cells, styles, settings, texts)
    counted = [record for record in own if record.cell.prompt_set != ECHO]
    summary = summarise(counted, shown.config_order)[0]
    title = texts.tell("model-title", model=model.model, temperature=model.temperature)
    return ModelPart(
        id=own_id,
        title=title,
        answer=texts.say(model.answer),
        floor=_floor(model, settings, texts),
        table=_table(part, model, summary),
        judged=tuple(_judged(effect, cells, texts) for effect in model.effects),
        corpus=tuple(
            texts.tell("corpus-line", config=effect.config, why="; ".join(map(texts.say, effect.reasons)))
            for effect in model.corpus
        ),
        notes=(gates_line(shown.verdict.gates, texts), *_notes(summary, model, texts)),
        strata=_strata(model, cells, texts),
        figures=_figures(part, model, summary, _starts(model, shown)),
        notices=cells.notices(texts, well=False),
        disturbed=cells.notices(texts, well=True),
        cells=cells.table(texts, texts.tell("cells-caption", model=title, cells=len(own))),
    )


def _figures(
    part: Part, model: ModelVerdict, summary: ModelSummary, starts: Sequence[ServerStart]
) -> tuple[Figure, ...]:
    """All plots; what is drawn says of how many cells it is."""
    cells = part.cells.records
    sample = part.tell(
        "sample",
        cells=len(cells),
        prompts=len({record.cell.prompt for record in cells}),
        blocks=len({record.cell.block for record in cells}),
    )
    figures = (
        change_figure(part, model),
        tg_figure(part, summary, model.floor),
        prompts_figure(part, model),
        acceptance_figure(part, summary),
        curve_figure(part),
        memory_figure(part),
        load_figure(part, starts),
        drift_figure(part),
    )
    return tuple(
        replace(figure, note=f"{figure.note} {sample}") if figure.plot is not None else figure
        for figure in figures
    )


def _starts(model: ModelVerdict, shown: Shown) -> list[ServerStart]:
    starts = shown.run.starts if shown.run is not None else ()
    return [s for s in starts if (s.model, s.temperature) == (model.model, model.temperature)]


def _floor(model: ModelVerdict, settings: Settings, texts: Catalogue) -> str:
    floor = model.floor
    if floor is None:
        return texts.tell("floor-unknown", baseline=settings.baseline)
    return texts.tell(
        "floor",
        baseline=settings.baseline,
        bound=floor.bound,
        worst=floor.worst,
        blocks=floor.blocks,
        level=1 - settings.level,
    )


def _table(part: Part, model: ModelVerdict, summary: ModelSummary) -> Table:
    texts = part.texts
    effects = {effect.config: effect for effect in model.effects}
    head = (
        Head(texts.tell("col-config"), number=False),
        Head(texts.tell("col-decision"), texts.tell("col-decision-hint"), number=False),
        *(Head(texts.tell(f"col-{name}"), texts.tell(f"col-{name}-hint")) for name in _HEAD),
    )
    rows = tuple(_row(part, row, effects.get(row.config)) for row in summary.rows)
    return Table(texts.tell("table-caption", prompts=summary.prompts), head, rows)


def _row(part: Part, row: Row, effect: Effect | None) -> tuple[Td, ...]:
    texts = part.texts
    href = part.cells.href(row.config)
    change = _change(effect.ratio, effect.low, effect.high) if effect is not None else UNKNOWN
    values = (
        change,
        number(row.tg.value if row.tg else None),
        _acceptance(row, texts),
        number(row.tokens_per_step, ".2f"),
        _with(number(row.pp), _estimate(effect.pp if effect is not None else None)),
        _with(number(row.rss_mb, ".0f"), number(_less(effect.rss) if effect is not None else None, "+.1%")),
        _cells(row, texts),
    )
    return (
        Td(row.config, href, number=False),
        _decision(row, effect, part.settings, texts),
        *(Td(value, None if value == UNKNOWN else href) for value in values),
    )


def _decision(row: Row, effect: Effect | None, settings: Settings, texts: Catalogue) -> Td:
    if row.config == settings.baseline:
        return Td(texts.tell("baseline"), number=False)
    if effect is None:
        return Td(UNKNOWN, number=False)
    return Td(texts.decision[effect.decision], number=False, decision=effect.decision)


def _acceptance(row: Row, texts: Catalogue) -> str:
    """Acceptance never stands without its coverage."""
    if row.acceptance is None:
        return texts.tell("nothing-drafted") if row.coverage == 0 and row.cells else UNKNOWN
    return texts.tell("acceptance-at", acceptance=row.acceptance, coverage=number(row.coverage, ".0%"))


def _cells(row: Row, texts: Catalogue) -> str:
    ok = row.cells - sum(row.failed.values())
    failed = [f"{count} {texts.tell(f'outcome-{status}')}" for status, count in sorted(row.failed.items())]
    return ", ".join([f"{ok} {texts.tell('outcome-ok')}", *failed])


def _estimate(estimate: Estimate | None) -> str:
    return UNKNOWN if estimate is None else _change(estimate.ratio, estimate.low, estimate.high)


def _change(ratio: float | None, low: float | None, high: float | None) -> str:
    """A change, and below it its interval where it has one."""
    if ratio is None:
        return UNKNOWN
    ends = between(_less(low), _less(high), "+.1%")
    return f"{ratio - 1:+.1%}" + (f"\n{ends}" if ends else "")


def _with(value: str, change: str) -> str:
    return value if change == UNKNOWN else f"{value}\n{change.splitlines()[0]}"


def _less(ratio: float | None) -> float | None:
    return None if ratio is None else ratio - 1


def _judged(effect: Effect, cells: Cells, texts: Catalogue) -> Judged:
    return Judged(
        config=effect.config,
        href=cells.href(effect.config),
        decision=effect.decision,
        said=texts.decision[effect.decision],
        reasons=tuple(map(texts.say, effect.reasons)),
        parts=tuple(
            texts.tell(
                "judged-on",
                kind=kind,
                decision=texts.decision[part.decision],
                why="; ".join(map(texts.say, part.reasons)),
            )
            for kind, part in effect.strata.items()
            if part.decision not in (effect.decision, "cannot tell")
        ),
    )


def _strata(model: ModelVerdict, cells: Cells, texts: Catalogue) -> Table | None:
    """The effects by set and kind of prompts; None where all prompts are of one kind."""
    rows = tuple(
        (
            Td(effect.config, cells.href(effect.config), number=False),
            Td(kind, number=False),
            Td(texts.decision[part.decision], number=False, decision=part.decision),
            Td(number(_less(part.ratio), "+.1%"), cells.href(effect.config)),
            Td(between(_less(part.low), _less(part.high), "+.1%") or UNKNOWN, cells.href(effect.config)),
            Td(number(part.n_prompts, "d"), cells.href(effect.config)),
            Td(number(part.n_blocks, "d"), cells.href(effect.config)),
        )
        for effect in model.effects
        for kind, part in effect.strata.items()
    )
    if not rows:
        return None
    columns = ("change", "interval", "prompts", "blocks")
    head = (
        Head(texts.tell("col-config"), number=False),
        Head(texts.tell("col-kind"), number=False),
        Head(texts.tell("col-decision"), number=False),
        *(Head(texts.tell(f"col-{name}")) for name in columns),
    )
    return Table(texts.tell("strata-caption"), head, rows)


def _notes(summary: ModelSummary, model: ModelVerdict, texts: Catalogue) -> tuple[str, ...]:
    """What has to be known of the numbers above."""
    blocks = max((row.tg.blocks for row in summary.rows if row.tg), default=0)
    told: Sequence[tuple[str, int]] = (
        ("note-contended", summary.contended),
        ("note-throttled", summary.throttled),
        ("note-repeated", summary.repeated),
        ("note-stateful", summary.stateful),
        ("note-paged", summary.paged),
        ("note-apart", summary.apart),
        ("note-unread", len(summary.unread)),
    )
    notes = [texts.tell("note-one-block")] if blocks == 1 else []
    notes += [
        texts.tell("note-prompts", config=row.config, prompts=row.prompts, of=summary.prompts)
        for row in summary.rows
        if row.prompts < summary.prompts
    ]
    notes += [
        texts.tell("note-abstained", config=row.config, why=row.abstained)
        for row in summary.rows
        if row.abstained
    ]
    notes += [texts.tell(key, n=n) for key, n in told if n]
    if model.excluded:
        left = ", ".join(f"{n} {_why(name, texts)}" for name, n in sorted(model.excluded.items()))
        notes.append(texts.tell("note-excluded", left=left))
    return tuple(notes)


def _why(name: str, texts: Catalogue) -> str:
    of_good_cells = (*DISTURBED, NOT_TIMED)
    return texts.tell(f"mark-{name}" if name in of_good_cells else f"outcome-{name}")
