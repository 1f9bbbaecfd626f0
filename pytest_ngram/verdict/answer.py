"""The answer in one sentence, over all configs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.effect import measure
from pytest_ngram.verdict.interval import Gap
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect, Settings, Span

Answer = tuple[Reason, str | None, tuple[str, ...]]


def answer(
    effects: Sequence[Effect], configs: Mapping[str, Sequence[Sample]], gap: Gap | None, settings: Settings
) -> Answer:
    """Return the sentence, the config to adopt, and those that this run cannot tell from it.

    The best is the one with the highest estimate, and the best of several is always a little lucky: that is
    why the ties stand beside it.
    """
    if not configs.get(settings.baseline):
        return reason("answer-no-baseline", baseline=settings.baseline), None, ()
    if not effects:
        return reason("answer-alone", baseline=settings.baseline), None, ()
    pays = {each.config: each.span for each in effects if each.decision == "adopt" and each.span}
    if pays:
        best = max(pays, key=lambda config: pays[config].gain)
        ties = tuple(
            other for other in pays if other != best and _tied(configs[best], configs[other], gap, settings)
        )
        return _adopt(best, pays[best], ties), best, ties
    open_ = [effect.config for effect in effects if effect.decision == "cannot tell"]
    if open_:
        return reason("answer-open", open=", ".join(open_)), None, ()
    return reason("answer-keep", baseline=settings.baseline), None, ()


def _adopt(config: str, span: Span, ties: tuple[str, ...]) -> Reason:
    gain, low, high = span.gain, span.low, span.high
    if ties:
        return reason("answer-adopt-tied", config=config, gain=gain, low=low, high=high, ties=", ".join(ties))
    return reason("answer-adopt", config=config, gain=gain, low=low, high=high)


def _tied(best: Sequence[Sample], other: Sequence[Sample], gap: Gap | None, settings: Settings) -> bool:
    """Whether the interval of their ratio, or the floor, reaches 1."""
    measured = measure(best, other, gap, settings)
    effect = measured.effect
    if effect.ratio is None or effect.low is None or effect.floor is None:
        return True
    return effect.low <= 1 or effect.ratio - 1 <= effect.floor
