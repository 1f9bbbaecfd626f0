"""What settings would give that were not measured, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.report.columns import columns
from pytest_ngram.report.terminal import UNKNOWN
from pytest_ngram.verdict.forecast import Forecast, ModelForecast
from pytest_ngram.verdict.summary import BASELINE

_HEAD = ("setting", "accept @ coverage", "tok/step", "tg", f"vs {BASELINE}", "ceiling", "measured")


def foreseen_lines(found: Iterable[ModelForecast], language: str = "en") -> list[str]:
    """Return a table for each model with anything to foresee: nothing where no config drafted."""
    texts = catalogue(language)
    lines: list[str] = []
    for model in found:
        if model.settings:
            lines += ["", *_model(model, texts)]
    return lines


def _model(model: ModelForecast, texts: Catalogue) -> list[str]:
    title = f"{model.model}, temperature {model.temperature:g}: what the cost curve foresees"
    rows = [_HEAD, *map(_row, model.settings)]
    lines = [title, *columns(rows)]
    if model.why is not None:
        lines.append(f"  {texts.say(model.why)}")
    lines += [f"  {each.setting}: no forecast: {texts.say(each.why)}" for each in model.settings if each.why]
    for drafter, points in model.break_even.items():
        told = ", ".join(f"{each.n_max}: {_pays(each.acceptance)}" for each in points)
        if told:
            lines.append(f"  {drafter} pays from this acceptance on, by n_max: {told}")
    return lines


def _pays(acceptance: float) -> str:
    return f"{acceptance:.2f}" if acceptance <= 1 else "never"


def _row(of: Forecast) -> tuple[str, ...]:
    accepted = UNKNOWN if of.acceptance is None else f"{of.acceptance:.3f}"
    covered = UNKNOWN if of.coverage is None else f"{of.coverage:.0%}"
    return (
        of.setting,
        f"{accepted} @ {covered}",
        UNKNOWN if of.tokens_per_step is None else f"{of.tokens_per_step:.2f}",
        UNKNOWN if of.tg is None else f"{of.tg:.1f}",
        _gain(of.speed_up),
        _gain(of.ceiling),
        _gain(of.measured),
    )


def _gain(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio - 1:+.1%}"
