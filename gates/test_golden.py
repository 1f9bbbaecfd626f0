"""Golden: the text of the reference prompts is the reviewed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("golden", over="model/prompt")
def test_the_text_is_the_stored_one(ngram_gate: Gate) -> None:
    """The baseline generates the ids stored for this model, engine, threads, batch and KV type."""
    ngram_gate.settle(ngram_gate.room.gates.golden(ngram_gate.about))
