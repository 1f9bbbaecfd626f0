"""The line of a report that says what gates found."""

from __future__ import annotations

from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.verdict.types import GateResults

_KEYS = {
    "passed": "gates-passed",
    "failed": "gates-failed",
    "known issue": "gates-known-issue",
    "cannot compare": "gates-cannot-compare",
    "not checked": "gates-not-checked",
}


def gates_line(gates: GateResults | None, texts: Catalogue) -> str:
    """Return how many gates passed, failed or did not judge, and of which build; or that none were run."""
    if gates is None:
        return texts.tell("gates-none")
    counts = [
        texts.tell(key, n=gates.counts.get(status, 0))
        for status, key in _KEYS.items()
        if status in ("passed", "failed", *gates.counts)
    ]
    return texts.tell("gates", counts=", ".join(counts), source=gates.source)
