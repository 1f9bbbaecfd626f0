"""How far a change that must not matter moves the lead of a token over its runner-up."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ngram.judge.types import Margin


def largest_shift(base: Sequence[Margin], changed: Sequence[Margin]) -> float:
    """Return the largest change of a lead, in nats, while both texts still had the same context.

    A lead that changes sign counts whole. Three tokens, the same first two: leads 2.0, 0.5 and 0.1 for token
    7 over 8 became 2.0, 0.4 and, with 8 over 7, 0.2: shifts 0, 0.1 and 0.3, so 0.3. What comes after a flip
    is another text, and is left out; so is a place where another pair leads, or where a lead is below 0: that
    token was not chosen for its probability.
    """
    largest = 0.0
    for before, after in zip(base, changed, strict=False):
        if before.lead < 0 or after.lead < 0:
            pass
        elif (before.token, before.runner_up) == (after.token, after.runner_up):
            largest = max(largest, abs(before.lead - after.lead))
        elif (before.token, before.runner_up) == (after.runner_up, after.token):
            largest = max(largest, before.lead + after.lead)
        if before.token != after.token:
            break
    return largest


def bound(base: Sequence[Sequence[Margin]], *changed: Sequence[Sequence[Margin]]) -> float:
    """Return the largest shift over all texts and all changes; 0 where nothing moved.

    A lead below it is within the reach of rounding. With 0, no difference can be a near-tie: a model whose
    leads no change moves has no excuse.
    """
    shifts = [
        largest_shift(before, after) for texts in changed for before, after in zip(base, texts, strict=True)
    ]
    return max(shifts, default=0.0)
