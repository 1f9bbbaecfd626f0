"""Non-vacuity: a config that never drafted, or was never wrong, proves nothing by agreeing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("vacuity", over="drafting")
def test_drafts_are_accepted_and_rejected(ngram_gate: Gate) -> None:
    """Over all prompts a config drafts, some of it is accepted, and some rejected."""
    ngram_gate.settle(ngram_gate.room.gates.vacuity(ngram_gate.about))
