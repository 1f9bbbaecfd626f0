"""When a request was touched by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_ngram.judge import accounting, isolation
from pytest_ngram.judge.identity import Seen
from pytest_ngram.judge.types import Answer, Margin, Together


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


Slots = tuple[int | None, int | None]


@pytest.mark.parametrize(("slots", "is_as_asked"), [((0, 1), True), ((1, 1), False), ((0, None), False)])
def test_slots_are_those_asked_for(answer: Callable[..., Answer], slots: Slots, is_as_asked: bool) -> None:
    """A request that another slot answered, or that does not say which, shows nothing of the one asked."""
    one, other = (answer(id_slot=slot) for slot in slots)
    verdict = isolation.on_slots(("first", one, 0), ("second", other, 1))
    assert (verdict.status == "passed") == is_as_asked
    assert verdict.kind == (None if is_as_asked else "not as asked")


@pytest.mark.parametrize(
    ("slots", "decodes", "kind"),
    [
        ((0, 1), 33.0, None),  # each takes 2 + 60 - 1 - 28 = 33 decodes: all of them shared
        ((0, 1), 49.0, None),
        ((0, 1), 50.0, "not as asked"),
        ((0, 1), 66.0, "not as asked"),
        ((0, 0), 33.0, "not as asked"),
        ((0, None), 33.0, "not as asked"),
        ((0, 1), None, "missing"),
    ],
)
def test_at_once_shares_decodes(
    answer: Callable[..., Answer], slots: Slots, decodes: float | None, kind: str | None
) -> None:
    """Two requests were at once if the server decoded for both, half of the shorter one's decodes or more."""
    one, other = (answer(id_slot=slot) for slot in slots)
    verdict = isolation.at_once(Together((one, other), decodes))
    assert (verdict.status, verdict.kind) == ("passed" if kind is None else "failed", kind)


def test_what_is_known_of_a_difference_is_shown(answer: Callable[..., Answer]) -> None:
    """Index, both continuations, lead, runner-up and batch widths stand in the failure."""
    other = answer(tokens=(*range(58), 7, 8))
    seen = Seen(expected=answer().tokens, got=other.tokens, margin=Margin(58, 3, 0.5), widths=(2, 4))
    text = isolation.judge(answer(), other, what="after a", seen=seen).text
    assert text.splitlines()[1:] == [
        "  first difference at token 58",
        "  alone   goes on 58 59",
        "  after a goes on 7 8",
        "  the baseline led with 58 by 0.500000 nats over its runner-up 3",
        "  verify batches were 2 to 4 tokens wide",
    ]


def test_another_slot_has_a_class_of_its_own(answer: Callable[..., Answer]) -> None:
    """What a slot keeps of its own explains nothing there."""
    kind = isolation.DRAFTS_DIFFER_ON_ANOTHER_SLOT
    assert isolation.judge(answer(), answer(draft_n=1), what="after a", differ=kind).kind == kind
