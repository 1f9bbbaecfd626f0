"""Lines of the verdict for a terminal: the answer, then a line for each config."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.report.gates import gates_line
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.decision import counts
from pytest_ngram.verdict.types import Effect, ModelVerdict, Verdict

# Told once for a model, or in the report alone: they are much the same for each config.
_ELSEWHERE = {"gates-not-run", "cells-excluded", "prompts-left-out", "blocks-left-out", "cells-filled"}


def verdict_lines(verdict: Verdict, language: str = "en") -> list[str]:
    """Return for each model and temperature the answer, and below it a line for each config; then the gates.

    Args:
        verdict: over the run.
        language: of the catalogue.
    """
    texts = catalogue(language)
    lines: list[str] = []
    for model in verdict.models:
        lines += ["", f"{model.model}, temperature {model.temperature:g}: {texts.say(model.answer)}"]
        lines += [f"  {line}" for line in _lines(model, texts)]
    return [*lines[1:], "", gates_line(verdict.gates, texts)] if lines else []


def _lines(model: ModelVerdict, texts: Catalogue) -> Iterable[str]:
    width = max((len(effect.config) for effect in model.effects), default=0)
    for effect in model.effects:
        yield f"{effect.config.ljust(width)}  {_said(effect, texts)}"
        for kind, part in effect.strata.items():
            if part.decision not in (effect.decision, "cannot tell"):
                yield f"{'':{width}}    on {kind}: {_said(part, texts)}"
    for effect in model.corpus:
        yield f"{effect.config.ljust(width)}  {_why(effect.reasons, texts)}"
    if model.excluded:
        cells = sum(model.excluded.values())
        yield texts.say(reason("cells-excluded", cells=cells, outcomes=counts(model.excluded)))
    if model.best is not None:
        said = [each for effect in model.effects for each in effect.reasons]
        yield from {texts.say(each) for each in said if each.code == "gates-not-run"}


def _said(effect: Effect, texts: Catalogue) -> str:
    return f"{texts.decision[effect.decision]}: {_why(effect.reasons, texts)}"


def _why(reasons: Sequence[Reason], texts: Catalogue) -> str:
    return "; ".join(texts.say(each) for each in reasons if each.code not in _ELSEWHERE)
