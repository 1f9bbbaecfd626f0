"""Control: without it nothing else means anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("control", over="model/prompt")
def test_the_baseline_repeats_itself(ngram_gate: Gate) -> None:
    """Two fresh servers without speculation give the same ids."""
    ngram_gate.settle(ngram_gate.room.gates.control(ngram_gate.about))
