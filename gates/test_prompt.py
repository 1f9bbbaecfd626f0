"""Prompt: the same words are the same ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("prompt", over="config/prompt")
def test_the_prompt_has_the_stored_ids(ngram_gate: Gate) -> None:
    """The build's template and tokenizer make of a prompt what they made when its ids were stored."""
    ngram_gate.settle(ngram_gate.room.gates.prompt(ngram_gate.about))
