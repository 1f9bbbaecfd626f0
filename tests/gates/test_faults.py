"""Proof that the gates can fail: each fault is caught by the gate that it is for, by its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fault_proxy import FAULTS

from pytest_ngram.errors import EngineError
from pytest_ngram.evidence.room import GateRoom
from pytest_ngram.judge import accounting, seam
from pytest_ngram.judge.types import Verdict
from pytest_ngram.matrix.gates import GateCase

MakeRoom = Callable[..., GateRoom]

BASE = GateCase("tiny", "none", "word-ru")
MTP1 = GateCase("tiny", "mtp1", "word-ru")
FIRST = GateCase("tiny", "mtp1", "word-en")
OWN = GateCase("plain", "own", "word-ru")
PLAIN = GateCase("plain", "mtp1", "word-ru")

Ask = Callable[[GateRoom], Verdict]
GATES: dict[str, Ask] = {
    "control": lambda room: room.gates.control(BASE),
    "prompt": lambda room: room.gates.prompt(BASE),
    "drafting-prompt": lambda room: room.gates.prompt(MTP1),
    "identity": lambda room: room.gates.identity(MTP1),
    "near-tie": lambda room: room.gates.identity(PLAIN),
    "self": lambda room: room.gates.identity(OWN),
    "cache": lambda room: room.gates.prompt_cache(MTP1),
    "rule": lambda room: room.gates.rule(MTP1),
    "vacuity": lambda room: room.gates.vacuity(MTP1),
    "after-others": lambda room: room.gates.after_others(MTP1),
    "three-times": lambda room: room.gates.three_times(MTP1),
    "second-slot": lambda room: room.gates.second_slot(MTP1),
    "at-once": lambda room: room.gates.at_once(MTP1),
    "accounting": lambda room: room.gates.accounting(MTP1),
    "golden": lambda room: room.gates.golden(BASE),
    "metrics": lambda room: seam.names("/metrics", accounting.METRICS, room.seam.report().metrics),
    "timings": lambda room: seam.names("timings", seam.TIMINGS_OF_DRAFTS, room.seam.report().timings),
    "lines": lambda room: seam.held("log and counters", room.seam.report().lines),
}
CAUGHT = [
    ("token", "identity", "failed", "logic fault"),
    ("token", "near-tie", "failed", "logic fault"),
    ("near-tie", "near-tie", "passed", "numeric near-tie"),
    ("near-tie", "identity", "failed", "logic fault"),
    ("token", "cache", "failed", "logic fault"),
    ("token", "rule", "failed", "logic fault"),
    ("token-everywhere", "rule", "failed", "logic fault"),
    ("token-everywhere", "golden", "failed", "logic fault"),
    ("token-of-second-baseline", "control", "failed", "not repeatable"),
    ("token-of-second-baseline", "identity", "cannot compare", "cannot compare"),
    ("token-of-second-baseline", "self", "cannot compare", "cannot compare"),
    ("token-of-long-drafts", "self", "failed", "logic fault"),
    ("state-leak", "cache", "failed", "state leak"),
    ("cut", "identity", "failed", "truncated"),
    ("cut", "rule", "failed", "truncated"),
    ("cut", "accounting", "failed", "contradiction"),
    ("repeat-last", "identity", "failed", "truncated"),
    ("repeat-last", "accounting", "failed", "contradiction"),
    ("state-leak", "identity", "failed", "state leak"),
    ("state-leak", "after-others", "failed", "state leak"),
    ("state-leak", "three-times", "failed", "state leak"),
    ("state-leak", "second-slot", "failed", "state leak"),
    ("state-leak", "at-once", "failed", "state leak"),
    ("misreported-drafts", "accounting", "failed", "contradiction"),
    ("drafts-leak", "after-others", "failed", "drafts differ"),
    ("drafts-leak", "three-times", "failed", "drafts differ"),
    ("drafts-leak", "second-slot", "failed", "drafts differ on another slot"),
    ("renamed-draft-key", "accounting", "failed", "missing"),
    ("renamed-draft-key", "after-others", "failed", "missing"),
    ("renamed-draft-key", "timings", "failed", "missing"),
    ("renamed-draft-key", "lines", "failed", "missing"),
    ("no-drafts", "vacuity", "failed", "vacuous"),
    ("no-drafts", "identity", "failed", "vacuous"),
    ("all-accepted", "vacuity", "failed", "vacuous"),
    ("dropped-metric", "accounting", "failed", "missing"),
    ("dropped-metric", "metrics", "failed", "missing"),
    ("template", "identity", "cannot compare", "prompt changed"),
    ("template", "drafting-prompt", "failed", "prompt changed"),
    ("template-everywhere", "prompt", "failed", "prompt changed"),
    ("template-everywhere", "golden", "cannot compare", "prompt changed"),
]


@pytest.mark.parametrize("gate", GATES)
def test_green_without_a_fault(make_room: MakeRoom, gate: str) -> None:
    """Behind a proxy that changes nothing, every gate passes."""
    verdict = GATES[gate](make_room())
    assert (verdict.status, verdict.kind) == ("passed", None), verdict.text


@pytest.mark.parametrize(("fault", "gate", "status", "kind"), CAUGHT)
def test_fault_is_caught(make_room: MakeRoom, fault: str, gate: str, status: str, kind: str) -> None:
    """The gate tells the fault by its class."""
    verdict = GATES[gate](make_room(fault))
    assert (verdict.status, verdict.kind) == (status, kind), verdict.text


@pytest.mark.parametrize("gate", ["identity", "rule", "after-others", "accounting"])
@pytest.mark.parametrize(
    ("fault", "outcome"), [("hang", "hang"), ("crash", "crash"), ("renamed-timings-key", "refused")]
)
def test_no_answer_is_no_pass(make_room: MakeRoom, fault: str, outcome: str, gate: str) -> None:
    """A server that hangs, dies or cannot be read leaves no verdict; the error says which, each time."""
    room = make_room(fault)
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            GATES[gate](room)
        assert caught.value.outcome == outcome


def test_every_fault_is_used() -> None:
    """No fault of the proxy is left untried."""
    tried = {fault for fault, *_ in CAUGHT} | {"hang", "crash", "renamed-timings-key"}
    assert tried == set(FAULTS)


def test_a_fault_elsewhere_is_not_blamed(make_room: MakeRoom) -> None:
    """A fault of drafting servers leaves the gates of the baseline green."""
    room = make_room("token")
    for gate in ("control", "prompt", "golden"):
        assert GATES[gate](room).status == "passed"


def test_the_first_difference_is_shown(make_room: MakeRoom) -> None:
    """Index, both continuations, the baseline's lead and the widths of verify batches stand in the text."""
    from fault_proxy import INDEX

    text: Any = GATES["identity"](make_room("token")).text
    assert f"first difference at token {INDEX}" in text
    assert "none goes on" in text
    assert "mtp1 goes on" in text
    assert "the baseline led with" in text
    assert "verify batches were 2 to 2 tokens wide" in text
