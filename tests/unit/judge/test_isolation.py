"""When a request was touched by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_ngram.judge import accounting, isolation
from pytest_ngram.judge.types import Answer


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({}, "passed", None),
        ({"tokens": tuple(range(59))}, "failed", "state leak"),
        ({"tokens": (*range(59), 7)}, "failed", "state leak"),
        ({"draft_n": 61}, "failed", "drafts differ"),
        ({"draft_n_accepted": 27}, "failed", "drafts differ"),
        ({"draft_n": None, "draft_n_accepted": None, "metrics": None}, "failed", "drafts differ"),
        ({"prompt_ids": (1,), "tokens": (1,)}, "failed", "prompt changed"),
    ],
)
def test_each_case(
    answer: Callable[..., Answer], changes: dict[str, Any], status: str, kind: str | None
) -> None:
    """Other ids are a state leak, the same ids by other drafts are told as that."""
    verdict = isolation.judge(answer(), answer(**changes), what="after a")
    assert (verdict.status, verdict.kind) == (status, kind)


def test_counts_may_be_left_out(answer: Callable[..., Answer]) -> None:
    """Where the counts of two requests are mixed, ids alone decide."""
    assert isolation.judge(answer(), answer(draft_n=1), what="beside b", counts=False).status == "passed"


def test_counts_that_are_missing_are_not_zero(answer: Callable[..., Answer]) -> None:
    """Where both answers lack the counts of drafts that the server made, nothing was compared."""
    lacking = answer(draft_n=None, draft_n_accepted=None)
    verdict = isolation.judge(lacking, lacking, what="after a")
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    none = answer(draft_n=None, draft_n_accepted=None, metrics={accounting.DRAFTED: 0.0})
    assert isolation.judge(none, none, what="after a").status == "passed"


def test_another_slot_has_a_class_of_its_own(answer: Callable[..., Answer]) -> None:
    """What a slot keeps of its own explains nothing there."""
    kind = isolation.DRAFTS_DIFFER_ON_ANOTHER_SLOT
    assert isolation.judge(answer(), answer(draft_n=1), what="after a", differ=kind).kind == kind
