"""Numbers as text. What is unknown is a dash, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from pytest_ngram.record import Record
from pytest_ngram.report.page.types import UNKNOWN
from pytest_ngram.verdict.summary import seconds_per_token


def number(value: float | None, form: str = ".1f") -> str:
    """Return a number by a format specification, or the dash."""
    return UNKNOWN if value is None else format(value, form)


def between(low: float | None, high: float | None, form: str) -> str:
    """Return both ends of a range; empty where it is not known."""
    return "" if low is None or high is None else f"{low:{form}}…{high:{form}}"


def tg_of(record: Record) -> float | None:
    """Tokens per second of a cell: 1 ÷ the mean over its rounds; None where any of them has none."""
    seconds = mean_of(map(seconds_per_token, record.rounds))
    return 1 / seconds if seconds else None


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean; None where any value is."""
    every = list(values)
    known = [value for value in every if value is not None]
    return fmean(known) if known and len(known) == len(every) else None
