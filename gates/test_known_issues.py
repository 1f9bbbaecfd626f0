"""Known issues: a build that fixes one, or breaks it again, is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("known issues", over="issue")
def test_it_is_as_known(ngram_gate: Gate) -> None:
    """The reproduction of an entry shows it on the builds that have it, and on no other."""
    ngram_gate.settle(ngram_gate.room.known_issue(ngram_gate.name))
