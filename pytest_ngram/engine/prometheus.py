"""Reads Prometheus's text format. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_ngram.errors import EngineError

# name, optional {labels}, value, optional time stamp
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^{}]*\})?)\s+(\S+)(?:\s+-?\d+)?")
# as a C++ stream prints a number
_DIGITS = 6


def parse(text: str) -> dict[str, float]:
    """Return each sample by its name with the labels as written.

    `x_total{position="0"} 3` becomes `{'x_total{position="0"}': 3.0}`.

    Raises:
        EngineError: a line that is neither empty, a comment, nor a sample; or a sample given twice.
    """
    samples: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.strip())
        value = _number(match[2]) if match else None
        if match is None or value is None or match[1] in samples:
            raise EngineError(
                "the server's /metrics are not Prometheus text",
                outcome="refused",
                checked=[f"line {number}: {line[:200]}"],
                fix="this build of llama.cpp changed its metrics; use one that the documentation lists",
            )
        samples[match[1]] = value
    return samples


def added(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return what each counter rose by between two readings.

    A label that was not there before counts from 0; a metric that the build lacks stays away. So does one
    that may have been rounded: llama-server prints six digits, so that 1234567 reads as 1.23457e+06.
    """
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if not (_may_be_rounded(value) or _may_be_rounded(before.get(name, 0.0)))
    }


def _may_be_rounded(value: float) -> bool:
    return value >= 10**_DIGITS and float(f"{value:.{_DIGITS}g}") == value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
