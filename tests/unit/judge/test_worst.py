"""Which of several verdicts decides."""

from __future__ import annotations

import random

from pytest_ngram.judge.types import Verdict, failed, passed, worst


def test_the_worst_decides_wherever_it_stands() -> None:
    """A failure is not hidden by what came before it, nor a known issue by a near-tie."""
    order = [
        failed("identity", "logic fault", []),
        Verdict("identity", "cannot compare", "cannot compare"),
        Verdict("identity", "not checked", "stored"),
        Verdict("identity", "known issue", "drafts differ"),
        passed("identity", kind="numeric near-tie"),
        passed("identity"),
    ]
    for i, expected in enumerate(order):
        mixed = order[i:]
        random.Random(i).shuffle(mixed)
        assert worst(mixed) == expected
        assert worst(mixed[::-1]) == expected
