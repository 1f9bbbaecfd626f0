"""Numbers as text. What is unknown is a dash, never 0. Pure."""

from __future__ import annotations

UNKNOWN = "—"


def number(value: float | None, form: str = ".1f") -> str:
    """Return a number by a format specification, or the dash."""
    return UNKNOWN if value is None else format(value, form)


def between(low: float | None, high: float | None, form: str) -> str:
    """Return both ends of a range; empty where it is not known."""
    return "" if low is None or high is None else f"{low:{form}}…{high:{form}}"


def counted(count: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
