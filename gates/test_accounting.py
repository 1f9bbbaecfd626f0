"""Accounting: all that the server counts of a request adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("accounting", over="config/prompt")
def test_the_counts_agree(ngram_gate: Gate) -> None:
    """Steps by tokens are steps by decodes; timings, metrics, trace and statistics tell the same drafts."""
    ngram_gate.settle(ngram_gate.room.gates.accounting(ngram_gate.about))
