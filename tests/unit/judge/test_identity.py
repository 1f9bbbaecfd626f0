"""The decision table of identity, row by row, and its order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.judge.identity import Seen, classify, first_difference, judge
from pytest_ngram.judge.types import Margin

BASE = (1, 2, 3, 4, 5)
OTHER = (1, 2, 9, 4, 5)
NEAR = {"margin": Margin(3, 9, 0.01), "bound": 0.02}
NAMES = ("none", "mtp1")
ids = st.lists(st.integers(0, 3), max_size=8).map(tuple)


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({"got": BASE}, None),
        ({"got": BASE, "control": False}, "cannot compare"),
        ({"got": OTHER, "control": False}, "cannot compare"),
        ({"got": BASE, "prompts": False}, None),
        ({"got": OTHER, "prompts": False}, "prompt changed"),
        ({"got": BASE[:3]}, "truncated"),
        ({"got": (*BASE, 6)}, "truncated"),
        ({"got": ()}, "truncated"),
        ({"got": OTHER, "fresh_agrees": True}, "state leak"),
        ({"got": OTHER, "fresh_agrees": False, **NEAR}, "numeric near-tie"),
        ({"got": OTHER, **NEAR}, "numeric near-tie"),
        ({"got": OTHER, "margin": Margin(3, 9, 0.02), "bound": 0.02}, "logic fault"),
        ({"got": OTHER, "margin": Margin(3, 8, 0.01), "bound": 0.02}, "logic fault"),
        ({"got": OTHER, "margin": Margin(7, 9, 0.01), "bound": 0.02}, "logic fault"),
        ({"got": OTHER, "margin": Margin(9, 3, 0.01), "bound": 0.02}, "numeric near-tie"),
        ({"got": OTHER, "margin": Margin(3, 9, 0.0), "bound": 0.0}, "logic fault"),
        ({"got": OTHER, "margin": Margin(3, 9, 0.0), "bound": 0.02}, "numeric near-tie"),
        ({"got": OTHER, "margin": Margin(3, 9, -0.01), "bound": 0.02}, "logic fault"),
        ({"got": OTHER, "margin": Margin(3, 9, 0.01)}, "logic fault"),
        ({"got": OTHER}, "logic fault"),
    ],
)
def test_each_row(known: dict[str, Any], kind: str | None) -> None:
    """Each row of the table gives its class, and a lead at the bound, or of another pair, is no near-tie."""
    assert classify(Seen(expected=BASE, **known)) == kind


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({"control": False, "prompts": False, "got": BASE[:3]}, "cannot compare"),
        ({"prompts": False, "got": BASE[:3], "fresh_agrees": True}, "prompt changed"),
        ({"got": BASE[:3], "fresh_agrees": True, **NEAR}, "truncated"),
        ({"got": OTHER, "fresh_agrees": True, **NEAR}, "state leak"),
    ],
)
def test_earlier_rows_win(known: dict[str, Any], kind: str) -> None:
    """Where several rows hold, the one that stands first is the class."""
    assert classify(Seen(expected=BASE, **known)) == kind


@given(ids, ids)
def test_first_difference_is_the_first(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Up to it both agree, at it they do not, and equal texts have none; the sides may be swapped."""
    index = first_difference(one, other)
    assert index == first_difference(other, one)
    assert (index is None) == (one == other)
    if index is not None:
        assert one[:index] == other[:index]
        assert one[index : index + 1] != other[index : index + 1]


@given(ids, ids, st.booleans(), st.booleans(), st.sampled_from([None, True, False]))
def test_a_difference_never_passes_unseen(
    one: tuple[int, ...], other: tuple[int, ...], control: bool, prompts: bool, fresh: bool | None
) -> None:
    """Whatever else is known, a strict judgement passes equal texts of a good control only."""
    seen = Seen(expected=one, got=other, control=control, prompts=prompts, fresh_agrees=fresh, bound=9.0)
    verdict = judge(seen, policy="strict", names=NAMES)
    assert (verdict.status == "passed") == (one == other and control)
    assert verdict.kind != "logic fault" or prompts


@pytest.mark.parametrize(
    ("policy", "status"), [("near-tie", "passed"), ("strict", "failed"), ("self", "failed")]
)
def test_policy_decides_on_near_ties(policy: str, status: str) -> None:
    """A near-tie passes where the policy says so, and is counted there; nowhere else."""
    verdict = judge(Seen(expected=BASE, got=OTHER, **NEAR), policy=policy, names=NAMES)
    assert (verdict.status, verdict.kind) == (status, "numeric near-tie")


@pytest.mark.parametrize("known", [{"prompts": False}, {"control": False}])
def test_what_cannot_be_compared_is_neither_pass_nor_failure(known: dict[str, Any]) -> None:
    """A changed prompt or a failed control has a count of its own."""
    assert (
        judge(Seen(expected=BASE, got=OTHER, **known), policy="strict", names=NAMES).status
        == "cannot compare"
    )


def test_a_failure_shows_what_is_needed() -> None:
    """Index, both continuations, margin, runner-up, bound and batch width stand in the text."""
    seen = Seen(expected=BASE, got=OTHER, margin=Margin(3, 9, 0.5), bound=0.02, widths=(2, 4))
    text = judge(seen, policy="near-tie", names=NAMES).text
    assert text.splitlines() == [
        "identity: logic fault",
        "  first difference at token 2",
        "  none goes on 3 4 5",
        "  mtp1 goes on 9 4 5",
        "  the baseline led with 3 by 0.500000 nats over its runner-up 9",
        "  a change of threads or batch moves a lead by up to 0.020000 nats on this model",
        "  verify batches were 2 to 4 tokens wide",
    ]


def test_a_state_leak_of_a_small_lead_says_so() -> None:
    """The class stays state leak, and the reader is told that a near-tie may be behind it."""
    verdict = judge(Seen(expected=BASE, got=OTHER, fresh_agrees=True, **NEAR), policy="near-tie", names=NAMES)
    assert verdict.kind == "state leak"
    assert "near-tie" in verdict.text
