"""Plots of speed: tg by config, change against the baseline, by prompt, and over the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from pytest_ngram.record import Record
from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import between, number
from pytest_ngram.report.page.cells import Cells, name_of, tg_of
from pytest_ngram.report.page.part import Part
from pytest_ngram.report.page.types import Band, Figure, Head, Mark, Plot, Rule, Series, Table, Td
from pytest_ngram.verdict.summary import BASELINE, ModelSummary, Row
from pytest_ngram.verdict.types import Effect, Floor, ModelVerdict


def tg_figure(part: Part, summary: ModelSummary, floor: Floor | None) -> Figure:
    """Return tg by config, with its range over blocks, and the floor around the baseline."""
    known = [(row, row.tg) for row in summary.rows if row.tg is not None]
    base = next((tg.value for row, tg in known if row.config == BASELINE), None)
    series = tuple(
        Series(row.config, part.styles[row.config], (Mark(i, tg.value, tg.low, tg.high),))
        for i, (row, tg) in enumerate(known)
    )
    band = None
    if floor is not None and base is not None:
        label = part.tell("floor-band")
        band = Band(base * (1 - floor.bound), base * (1 + floor.bound), label)
    plot = Plot(part.tell("axis-tg"), series, categories=tuple(row.config for row, _tg in known), band=band)
    head = _heads(part.texts, "col-tg", "col-blocks-range", "col-blocks", "col-prompts", "col-cells")
    rows = tuple(_tg_row(row, part.cells) for row in summary.rows)
    title = part.tell("tg-title")
    return Figure(
        id=f"{part.id}-tg",
        title=title,
        alt=part.tell("tg-alt", said=_said((row.config, f"{tg.value:.1f}") for row, tg in known)),
        note=part.tell("tg-note") if known else part.tell("absent-tg"),
        plot=plot if known else None,
        table=Table(title, head, rows),
        legend=part.tell("tg-legend") if known else "",
    )


def change_figure(part: Part, model: ModelVerdict) -> Figure:
    """Return the change of tg by config, with its interval, the floor as a band, and the threshold."""
    known = [(effect, effect.ratio) for effect in model.effects if effect.ratio is not None]
    series = tuple(
        Series(
            effect.config,
            part.styles[effect.config],
            (Mark(i, ratio - 1, _less_one(effect.low), _less_one(effect.high)),),
        )
        for i, (effect, ratio) in enumerate(known)
    )
    floor, wanted = model.floor, part.settings.threshold
    plot = Plot(
        part.tell("axis-change", baseline=part.settings.baseline),
        series,
        categories=tuple(effect.config for effect, _ratio in known),
        band=Band(-floor.bound, floor.bound, part.tell("floor-band")) if floor is not None else None,
        rules=(Rule(part.tell("threshold-line", threshold=wanted), wanted),),
        percent=True,
        signed=True,
    )
    head = _heads(
        part.texts,
        "col-change",
        "col-interval",
        "col-these-prompts",
        "col-token-weighted",
        "col-p",
        "col-blocks",
        "col-prompts",
        "col-cells",
    )
    title = part.tell("change-title", baseline=part.settings.baseline)
    return Figure(
        id=f"{part.id}-change",
        title=title,
        alt=part.tell("change-alt", said=_said((e.config, f"{ratio - 1:+.1%}") for e, ratio in known)),
        note=part.tell("change-note", level=1 - part.settings.level) if known else part.tell("absent-change"),
        plot=plot if known else None,
        table=Table(title, head, tuple(_change_row(effect, part.cells) for effect in model.effects)),
        legend=part.tell("change-legend") if known else "",
    )


def prompts_figure(part: Part, model: ModelVerdict) -> Figure:
    """Return the change of tg by prompt, a series for each config."""
    effects = [effect for effect in model.effects if effect.per_prompt]
    prompts = sorted({prompt for effect in effects for prompt in effect.per_prompt})
    place = {prompt: i for i, prompt in enumerate(prompts)}
    series = tuple(
        Series(
            effect.config,
            part.styles[effect.config],
            tuple(Mark(place[prompt], ratio - 1) for prompt, ratio in sorted(effect.per_prompt.items())),
        )
        for effect in effects
    )
    baseline = model.effects[0].against if model.effects else ""
    plot = Plot(
        part.tell("axis-change", baseline=baseline),
        series,
        categories=tuple(prompts),
        percent=True,
        signed=True,
    )
    head = (
        Head(part.tell("col-prompt"), number=False),
        *(Head(effect.config, part.tell("col-prompt-hint", config=effect.config)) for effect in effects),
    )
    rows = tuple(
        (Td(prompt, number=False), *(_prompt_td(effect, prompt, part.cells) for effect in effects))
        for prompt in prompts
    )
    title = part.tell("prompts-title", baseline=baseline)
    return Figure(
        id=f"{part.id}-prompts",
        title=title,
        alt=part.tell("prompts-alt", prompts=len(prompts), configs=len(effects)),
        note=part.tell("prompts-note") if effects else part.tell("absent-change"),
        plot=plot if effects else None,
        table=Table(title, head, rows) if effects else None,
    )


def drift_figure(part: Part) -> Figure:
    """Return each cell against the mean of its config and prompt, in the order of measuring."""
    order, left_out = _in_order(part.cells.records)
    means = _means(part.cells.records)
    series, rows = [], []
    for config in part.cells.configs:
        marks = []
        for n, record in order:
            tg, mean = tg_of(record), means.get((record.cell.config, record.cell.prompt))
            if record.cell.config == config and tg is not None and mean is not None:
                marks.append(Mark(n, tg / mean - 1))
        if marks:
            series.append(Series(config, part.styles[config], tuple(marks)))
    for n, record in order:
        tg, mean = tg_of(record), means.get((record.cell.config, record.cell.prompt))
        change = None if tg is None or mean is None else tg / mean - 1
        href = part.cells.href_of(record)
        rows.append(
            (
                Td(str(n)),
                Td(name_of(record), href, number=False),
                Td(number(tg), href),
                Td(number(change, "+.1%"), href),
            )
        )
    plot = Plot(
        part.tell("axis-drift"),
        tuple(series),
        place_label=part.tell("axis-position"),
        percent=True,
        signed=True,
    )
    title = part.tell("drift-title")
    head = (
        Head(part.tell("axis-position")),
        Head(part.tell("cells-cell"), number=False),
        *_columns(part.texts, "col-tg", "col-drift"),
    )
    drawn = sum(len(each.marks) for each in series)
    note = part.tell("drift-note", cells=drawn) if drawn else part.tell("absent-drift")
    if left_out:
        note += " " + part.tell("drift-left-out", cells=left_out)
    return Figure(
        id=f"{part.id}-drift",
        title=title,
        alt=part.tell("drift-alt", cells=drawn, said=_said(_spreads(series))),
        note=note,
        plot=plot if drawn else None,
        table=Table(title, head, tuple(rows)) if rows else None,
    )


def _less_one(ratio: float | None) -> float | None:
    return None if ratio is None else ratio - 1


def _said(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in pairs)


def _heads(texts: Catalogue, *keys: str) -> tuple[Head, ...]:
    return (Head(texts.tell("col-config"), number=False), *_columns(texts, *keys))


def _columns(texts: Catalogue, *keys: str) -> tuple[Head, ...]:
    return tuple(Head(texts.tell(key)) for key in keys)


def _tg_row(row: Row, cells: Cells) -> tuple[Td, ...]:
    href, tg = cells.href(row.config), row.tg
    return (
        Td(row.config, href, number=False),
        Td(number(tg.value if tg else None), href),
        Td(between(tg.low, tg.high, ".1f") if tg and tg.blocks > 1 else number(None), href),
        Td(number(tg.blocks if tg else None, "d"), href),
        Td(number(row.prompts, "d"), href),
        Td(number(row.cells, "d"), href),
    )


def _change_row(effect: Effect, cells: Cells) -> tuple[Td, ...]:
    href = cells.href(effect.config)
    these, weighted = effect.these_prompts, effect.token_weighted
    return (
        Td(effect.config, href, number=False),
        Td(number(_less_one(effect.ratio), "+.1%"), href),
        Td(between(_less_one(effect.low), _less_one(effect.high), "+.1%") or number(None), href),
        Td((these and between(_less_one(these.low), _less_one(these.high), "+.1%")) or number(None), href),
        Td(number(_less_one(weighted.ratio) if weighted else None, "+.1%"), href),
        Td(number(effect.p_holm, ".3f"), href),
        Td(number(effect.n_blocks, "d"), href),
        Td(number(effect.n_prompts, "d"), href),
        Td(number(effect.n_cells, "d"), href),
    )


def _prompt_td(effect: Effect, prompt: str, cells: Cells) -> Td:
    ratio = effect.per_prompt.get(prompt)
    return Td(number(_less_one(ratio), "+.1%"), None if ratio is None else cells.href(effect.config, prompt))


def _in_order(records: Sequence[Record]) -> tuple[list[tuple[int, Record]], int]:
    """The cells whose server is known, numbered from 1 as they were measured, and how many are left out."""
    known = [(record.server, record) for record in records if record.server is not None]
    ordered = sorted(known, key=lambda pair: (pair[0].serial, pair[0].answered))
    return [(n, record) for n, (_server, record) in enumerate(ordered, 1)], len(records) - len(known)


def _means(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """Mean tg by config and prompt where there is more than one cell: else nothing differs."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        tg = tg_of(record)
        if tg is not None and record.server is not None:
            found[record.cell.config, record.cell.prompt].append(tg)
    return {key: fmean(values) for key, values in found.items() if len(values) > 1}


def _spreads(series: Sequence[Series]) -> list[tuple[str, str]]:
    return [
        (each.name, between(min(m.value for m in each.marks), max(m.value for m in each.marks), "+.0%"))
        for each in series
    ]
