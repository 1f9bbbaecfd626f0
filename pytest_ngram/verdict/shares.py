"""Shares of requests, pooled: acceptance, coverage, tokens per step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from pytest_ngram.record import Round

LENGTHS = 2.0  # an answer that is more than so many times as long as another is not the same work


def acceptance(rounds: Sequence[Round]) -> float | None:
    """Accepted ÷ drafted tokens; None where nothing was drafted, or that is not known."""
    return quotient(total(rounds, "accepted"), total(rounds, "drafted"))


def coverage(rounds: Sequence[Round]) -> float | None:
    """Verify ÷ (plain + verify) steps."""
    return quotient(total(rounds, "verify_steps"), _forward_steps(rounds))


def tokens_per_step(rounds: Sequence[Round]) -> float | None:
    """Tokens after the first of each request ÷ all steps, replays included."""
    return quotient(_generated(rounds), total(rounds, "steps"))


def total(rounds: Iterable[Round], field: str) -> int | None:
    """Null where any round does not know the value: a partial sum would pass for a whole one."""
    values = [getattr(round_, field) for round_ in rounds]
    return None if not values or None in values else sum(values)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean; None where any value is, as with `total`, and where there is none."""
    every = list(values)
    known = [value for value in every if value is not None]
    return fmean(known) if known and len(known) == len(every) else None


def _forward_steps(rounds: Sequence[Round]) -> int | None:
    """Plain and verify steps: all steps without the replays."""
    steps, replays = total(rounds, "steps"), total(rounds, "replays")
    return None if steps is None or replays is None else steps - replays


def _generated(rounds: Sequence[Round]) -> int | None:
    """Tokens that came out of steps: all but the first of each round."""
    predicted = total(rounds, "predicted_n")
    return None if predicted is None else predicted - len(rounds)


def quotient(part: int | None, whole: int | None) -> float | None:
    """Part ÷ whole; None where one is not known, or the whole is 0."""
    return None if part is None or not whole else part / whole
