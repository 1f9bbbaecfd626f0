"""Isolation: a request is answered, and drafted for, as if no other had been there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("isolation", over="later")
def test_after_others(ngram_gate: Gate) -> None:
    """After other prompts on one server: the ids and the draft counts of a fresh server."""
    ngram_gate.settle(ngram_gate.room.isolation.after_others(ngram_gate.about))


@pytest.mark.ngram_gate("isolation", over="config/prompt")
def test_three_times(ngram_gate: Gate) -> None:
    """The same prompt three times on one server: the same ids and draft counts."""
    ngram_gate.settle(ngram_gate.room.isolation.three_times(ngram_gate.about))


@pytest.mark.ngram_gate("isolation", over="some")
def test_second_slot(ngram_gate: Gate) -> None:
    """On slot 1, after another prompt on slot 0: the ids and draft counts of slot 1 alone."""
    ngram_gate.settle(ngram_gate.room.isolation.second_slot(ngram_gate.about))


@pytest.mark.ngram_gate("isolation", over="rule")
def test_at_once(ngram_gate: Gate) -> None:
    """Two slots at once give the ids of each alone; the hand-built model has no near-ties to excuse less."""
    ngram_gate.settle(ngram_gate.room.isolation.at_once(ngram_gate.about))
