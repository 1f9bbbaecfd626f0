"""What settings would give that were not measured, as sections."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import UNKNOWN, number
from pytest_ngram.report.page.types import Head, Section, Table, Td
from pytest_ngram.verdict.curve import BreakEven
from pytest_ngram.verdict.forecast import Forecast, ModelForecast
from pytest_ngram.verdict.summary import BASELINE

_COLUMNS = ("setting", "acceptance", "per-step", "tg", "change", "ceiling", "measured")


def foreseen_sections(found: Iterable[ModelForecast], texts: Catalogue) -> tuple[Section, ...]:
    """Return a section for each model with anything to foresee: none where no config drafted."""
    told = [model for model in found if model.settings]
    return tuple(_section(f"foreseen-{n}", model, texts) for n, model in enumerate(told, 1))


def _section(place: str, model: ModelForecast, texts: Catalogue) -> Section:
    lines = [texts.say(model.why)] if model.why is not None else []
    lines += [
        texts.tell("next-no-forecast", setting=each.setting, why=texts.say(each.why))
        for each in model.settings
        if each.why is not None
    ]
    for drafter, points in model.break_even.items():
        if points:
            told = ", ".join(_pays(each, texts) for each in points)
            lines.append(texts.tell("next-break-even", drafter=drafter, points=told))
    title = texts.tell("model-title", model=model.model, temperature=model.temperature)
    return Section(
        id=place,
        title=texts.tell("next-title", model=title),
        lines=tuple(lines),
        tables=(_table(model, texts),),
    )


def _pays(each: BreakEven, texts: Catalogue) -> str:
    if each.acceptance > 1:
        return texts.tell("next-never", n_max=each.n_max)
    return texts.tell("next-from", n_max=each.n_max, acceptance=each.acceptance)


def _table(model: ModelForecast, texts: Catalogue) -> Table:
    heads = [texts.tell(f"next-col-{key}", baseline=BASELINE) for key in _COLUMNS]
    rows = [_row(each, texts) for each in model.settings]
    return Table(
        caption=texts.tell("next-caption"),
        head=tuple(Head(text, number=i > 0) for i, text in enumerate(heads)),
        rows=tuple(tuple(Td(text, number=i > 0) for i, text in enumerate(row)) for row in rows),
    )


def _row(of: Forecast, texts: Catalogue) -> tuple[str, ...]:
    accepted = (
        UNKNOWN
        if of.acceptance is None
        else texts.tell("acceptance-at", acceptance=of.acceptance, coverage=number(of.coverage, ".0%"))
    )
    return (
        of.setting,
        accepted,
        number(of.tokens_per_step, ".2f"),
        number(of.tg),
        _gain(of.speed_up),
        _gain(of.ceiling),
        _gain(of.measured),
    )


def _gain(ratio: float | None) -> str:
    return number(None if ratio is None else ratio - 1, "+.1%")
