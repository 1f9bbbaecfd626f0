"""A server that hangs, dies or cannot be read leaves no verdict, whichever gate asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from fault_proxy import FAULTS, everywhere
from test_faults import GATES, Ask

from pytest_ngram.errors import EngineError
from pytest_ngram.evidence.room import GateRoom

MakeRoom = Callable[..., GateRoom]

OF_THE_BASELINE = ("control", "prompt", "golden")
ALL: dict[str, Ask] = GATES | {"known-issue": lambda room: room.known_issue("cache-keeps-its-context")}


def outcomes(gates: Iterable[str], room: GateRoom) -> dict[str, str]:
    """What came of each gate: the outcome of its error, or the status of a verdict."""
    found = {}
    for name in gates:
        try:
            found[name] = ALL[name](room).status
        except EngineError as error:
            found[name] = error.outcome
    return found


def _soon(matrix: str) -> str:
    return matrix.replace("hang_after_s: 5", "hang_after_s: 1")


@pytest.mark.parametrize(
    ("fault", "outcome", "edit"),
    [("hang", "hang", _soon), ("crash", "crash", str), ("renamed-timings-key", "refused", str)],
)
def test_no_gate_passes_without_an_answer(
    make_room: MakeRoom, fault: str, outcome: str, edit: Callable[[str], str]
) -> None:
    """Each gate ends in an error that says which, where only what drafts is at fault, and of the baseline."""
    of_drafts = [name for name in ALL if name not in OF_THE_BASELINE]
    room = make_room(FAULTS[fault], edit=edit)
    assert outcomes(of_drafts, room) == dict.fromkeys(of_drafts, outcome)
    assert outcomes(of_drafts, room) == dict.fromkeys(of_drafts, outcome)


@pytest.mark.parametrize(
    ("fault", "outcome", "edit"),
    [("hang", "hang", _soon), ("crash", "crash", str), ("renamed-timings-key", "refused", str)],
)
def test_no_gate_of_the_baseline_passes_without_an_answer(
    make_room: MakeRoom, fault: str, outcome: str, edit: Callable[[str], str]
) -> None:
    """The same of the gates that ask the baseline alone."""
    room = make_room(replace(FAULTS[fault], where=everywhere), edit=edit)
    assert outcomes(OF_THE_BASELINE, room) == dict.fromkeys(OF_THE_BASELINE, outcome)
