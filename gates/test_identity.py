"""Identity: whatever drafts, the greedy text is the baseline's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("identity", over="drafting/prompt")
def test_drafts_do_not_change_the_text(ngram_gate: Gate) -> None:
    """A config that drafts generates the ids of the baseline, as its policy allows, and did draft."""
    ngram_gate.settle(ngram_gate.room.gates.identity(ngram_gate.about))


@pytest.mark.ngram_gate("identity", over="config/prompt")
def test_the_prompt_cache_does_not_change_the_text(ngram_gate: Gate) -> None:
    """A prompt that is answered from the cache gets the baseline's ids."""
    ngram_gate.settle(ngram_gate.room.gates.prompt_cache(ngram_gate.about))


@pytest.mark.ngram_gate("identity", over="rule")
def test_the_text_is_the_rules(ngram_gate: Gate) -> None:
    """The hand-built model generates what its rule computes, whatever the config."""
    ngram_gate.settle(ngram_gate.room.gates.rule(ngram_gate.about))
