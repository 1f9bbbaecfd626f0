"""Proof that the gates can fail: each fault is caught by the gate that it is for, by its class."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import FAULTS

from pytest_ngram.engine.build import OF_REQUESTS
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
    "after-others": lambda room: room.isolation.after_others(MTP1),
    "three-times": lambda room: room.isolation.three_times(MTP1),
    "second-slot": lambda room: room.isolation.second_slot(MTP1),
    "at-once": lambda room: room.isolation.at_once(MTP1),
    "accounting": lambda room: room.gates.accounting(MTP1),
    "golden": lambda room: room.gates.golden(BASE),
    "metrics": lambda room: seam.names("/metrics", accounting.METRICS, room.seam.report().metrics),
    "timings": lambda room: seam.names("timings", seam.TIMINGS_OF_DRAFTS, room.seam.report().timings),
    "lines": lambda room: seam.held("log and counters", OF_REQUESTS, room.seam.report().lines),
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
    ("no-drafts", "cache", "failed", "vacuous"),
    ("no-drafts-from-cache", "cache", "failed", "vacuous from the prompt cache"),
    ("no-drafts-of-variants", "self", "failed", "vacuous"),
    ("slot-not-taken", "second-slot", "failed", "not as asked"),
    ("one-by-one", "at-once", "failed", "not as asked"),
    ("no-probabilities", "rule", "failed", "logic fault"),
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


def test_every_fault_is_used() -> None:
    """No fault of the proxy is left untried."""
    others = {"hang", "crash", "renamed-timings-key", "template-of-second-baseline"}
    tried = {fault for fault, *_ in CAUGHT} | others
    assert tried == set(FAULTS)


def test_a_fault_elsewhere_is_not_blamed(make_room: MakeRoom) -> None:
    """A fault of drafting servers leaves the gates of the baseline green."""
    room = make_room("token")
    for gate in ("control", "prompt", "golden"):
        assert GATES[gate](room).status == "passed"


@pytest.mark.parametrize(
    ("fault", "gate", "names", "widths"),
    [
        ("token", "identity", ("none", "mtp1"), (2, 2)),
        ("token", "rule", ("the rule", "mtp1"), (2, 2)),
        ("token-of-long-drafts", "self", ("n_max 1", "n_max 3"), (2, 4)),
        ("state-leak", "after-others", ("alone", "after word-en"), (2, 2)),
        ("state-leak", "three-times", ("alone", "the second time"), (2, 2)),
        ("state-leak", "second-slot", ("alone", "after word-en on slot 0"), (2, 2)),
    ],
)
def test_the_first_difference_is_shown(
    make_room: MakeRoom, fault: str, gate: str, names: tuple[str, str], widths: tuple[int, int]
) -> None:
    """Index, both continuations, the baseline's lead, its runner-up and the verify batches are told."""
    from fault_proxy import INDEX

    text: Any = GATES[gate](make_room(fault)).text
    assert f"first difference at token {INDEX}" in text
    for name in names:
        assert re.search(rf"{re.escape(name)} +goes on \d+ ", text)
    assert re.search(r"the baseline led with \d+ by \d+\.\d+ nats over its runner-up \d+", text)
    assert f"verify batches were {widths[0]} to {widths[1]} tokens wide" in text


@pytest.mark.parametrize(
    ("fault", "gate", "said"),
    [
        ("no-probabilities", "rule", "the baseline could not be asked for its lead"),
        ("state-leak", "at-once", "how wide its verify batches were is not known"),
    ],
)
def test_what_is_not_known_of_a_difference_is_said(
    make_room: MakeRoom, fault: str, gate: str, said: str
) -> None:
    """A lead that cannot be asked, and widths that two requests share, are named as not known."""
    assert said in GATES[gate](make_room(fault)).text


@pytest.mark.parametrize(
    ("fault", "model", "said"),
    [
        ("token-of-second-baseline", "plain", "another server of the baseline contradicts it"),
        ("token-everywhere", "tiny", "the model's rule contradicts it"),
    ],
)
def test_a_golden_that_is_contradicted_is_not_stored(
    make_room: MakeRoom, tmp_path: Path, fault: str, model: str, said: str
) -> None:
    """`--gates-update` asks control and rule first, and says which of them speaks against the text."""
    golden = tmp_path / "new-goldens"
    room = make_room(fault, golden=golden, update=True)
    verdict = room.gates.golden(GateCase(model, "none", "word-ru"))
    assert (verdict.status, verdict.kind) == ("failed", "not stored")
    assert said in verdict.text
    assert not golden.exists()


def test_prompt_ids_that_do_not_repeat_are_not_stored(make_room: MakeRoom, tmp_path: Path) -> None:
    """A template that makes other ids on the second server is no reference."""
    golden = tmp_path / "new-goldens"
    room = make_room("template-of-second-baseline", golden=golden, update=True)
    verdict = room.gates.prompt(BASE)
    assert (verdict.status, verdict.kind) == ("failed", "not stored")
    assert not golden.exists()
