"""What the corpus adds: a config with a table against the same config without, never against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.decision import speed
from pytest_ngram.verdict.effect import measure
from pytest_ngram.verdict.interval import Gap
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Decision, Effect, Settings


def judge_corpus(
    configs: Mapping[str, Sequence[Sample]], gap: Gap | None, settings: Settings
) -> tuple[Effect, ...]:
    """Return an effect for each config with a table; its decision is of the table alone.

    Args:
        configs: cells by config.
        gap: of the baseline's two passes.
        settings: of the verdict.
    """
    made = []
    for name, own in configs.items():
        if own[0].table is None:
            continue
        base = without_table(name, configs)
        if base is None:
            why = (reason("corpus-not-compared", config=name),)
            made.append(Effect(config=name, against="", decision="cannot tell", reasons=why))
        else:
            made.append(_judged(own, configs[base], gap, settings))
    return tuple(made)


def without_table(name: str, configs: Mapping[str, Sequence[Sample]]) -> str | None:
    """Return the config that differs from this one in the table alone: the same types and flags.

    Of several, the one whose name has the longest beginning in common.
    """
    own = configs[name][0]
    same = [
        other
        for other, samples in configs.items()
        if samples[0].table is None
        and samples[0].types == own.types
        and own.types
        and samples[0].flags == own.flags
    ]
    return max(same, key=lambda other: _common(other, name), default=None)


def _common(one: str, other: str) -> int:
    """How many characters two names begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _judged(own: Sequence[Sample], base: Sequence[Sample], gap: Gap | None, settings: Settings) -> Effect:
    measured = measure(own, base, gap, settings)
    by_speed = speed(measured, settings, None, 1)
    effect = measured.effect
    said = _said(effect, by_speed.decision, by_speed.reasons, settings)
    return msgspec.structs.replace(
        effect,
        decision=by_speed.decision,
        reasons=said,
        more_blocks=by_speed.more_blocks,
        more_prompts=by_speed.more_prompts,
    )


def _said(
    effect: Effect, decision: Decision, reasons: tuple[Reason, ...], settings: Settings
) -> tuple[Reason, ...]:
    span, against = effect.span, effect.against
    if span is None:
        return (reason("corpus-untold", against=against), *reasons)
    gain, low, high = span.gain, span.low, span.high
    if decision == "adopt":
        return (reason("corpus-adds", gain=gain, low=low, high=high, against=against),)
    if decision == "cannot tell":
        return (reason("corpus-unsure", low=low, high=high, against=against), *reasons)
    if any(each.code == "slower" for each in reasons):
        return (reason("corpus-costs", gain=gain, low=low, high=high, against=against),)
    return (reason("corpus-adds-nothing", high=high, threshold=settings.threshold, against=against),)
