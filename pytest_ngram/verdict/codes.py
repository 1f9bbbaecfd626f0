"""Reasons as codes with values: the words are the report's (`report/texts`), so a language is a file."""

from __future__ import annotations

import msgspec

Value = str | int | float

# Each code, and the values that its text is given. Shares are ratios − 1: 0.05 is +5 %.
CODES: dict[str, frozenset[str]] = {
    code: frozenset(values.split())
    for code, values in {
        # nothing can be said
        "nothing-to-compare": "config against",
        "all-disturbed": "against outcomes",
        "too-few-blocks": "blocks least more",
        "one-prompt": "",
        "no-floor": "baseline",
        # the speed
        "gain": "gain low high threshold floor",
        "gain-too-small": "gain high threshold",
        "slower": "gain low high",
        "interval-covers-threshold": "low high threshold",
        "floor-covers-threshold": "gain floor threshold",
        "chance-of-several": "p configs",
        "token-weighted-disagrees": "gain weighted threshold",
        "more-blocks": "blocks more",
        "more-prompts": "prompts more_prompts blocks",
        "too-close": "most",
        # the costs
        "pp-loss": "change limit",
        "pp-loss-unsure": "change low high limit",
        "pp-loss-possible": "low limit",
        "rss-gain": "change more_mb limit least_mb",
        "pp-unknown": "limit",
        "rss-unknown": "limit",
        # the rest
        "gate-failed": "gate what",
        "gates-not-run": "",
        "no-gate-judged": "",
        "gate-known-issue": "gate what",
        "gate-not-judged": "gate what",
        "ended-badly": "cells outcomes",
        "inert": "cells",
        "stratum-loses": "stratum gain low high",
        "drafted-nothing": "against",
        "few-of-the-prompts": "prompts asked",
        "other-lengths": "own base",
        "cells-excluded": "cells outcomes",
        "prompts-left-out": "prompts",
        "blocks-left-out": "blocks",
        "cells-filled": "cells",
        # what a corpus adds
        "corpus-adds": "gain low high against",
        "corpus-adds-nothing": "high threshold against",
        "corpus-costs": "gain low high against",
        "corpus-unsure": "low high against",
        "corpus-untold": "against",
        "corpus-not-compared": "config",
        # one number a config
        "unrepeated": "",
        "keeps-state": "types",
        "split-needs": "change inputs",
        "points-corpus": "claims",
        "points-lookup": "claims",
        "points-stacks": "claims",
        "points-mtp": "claims best",
        "points-order": "claims",
        # the answer
        "answer-adopt": "config gain low high",
        "answer-adopt-tied": "config gain low high ties",
        "answer-keep": "baseline",
        "answer-open": "open",
        "answer-no-baseline": "baseline",
        "answer-alone": "baseline",
        # two runs
        "another-model": "model old new",
        "another-host": "what old new",
        "another-flags": "old new",
        "another-n-predict": "old new",
        "another-prompts": "new",
        "no-shared-cells": "old new",
        "no-draft-on-either-side": "baseline",
        "another-state": "cells",
        "no-undisturbed-cells": "",
        "no-baseline-on-both-sides": "baseline",
        "not-told": "what",
        "no-step-trace": "requests of why",
        "no-step-counts": "requests of",
        # bounds
        "within-bound": "bound change low high",
        "beyond-bound": "bound change low high",
        "bound-in-doubt": "bound change low high",
        "bound-few-blocks": "bound blocks least",
        "bound-no-floor": "bound baseline",
        "bound-untold": "bound",
        "ended-badly-now": "cells outcomes",
        "no-shared-models": "old new",
        "no-such-figure": "bounds",
        # forecast
        "no-curve": "drafter",
        "outside-curve": "width",
        "no-plain-steps": "baseline",
    }.items()
}


class Reason(msgspec.Struct, frozen=True):
    """Why, as a code of `CODES` with exactly its values."""

    code: str
    values: dict[str, Value] = {}


def reason(code: str, **values: Value) -> Reason:
    """Return a reason. Raises `ValueError` where the values are not those of the code."""
    if code not in CODES or set(values) != CODES[code]:
        raise ValueError(f"{code} takes {sorted(CODES.get(code, ()))}, not {sorted(values)}")
    return Reason(code, values)
