"""Ties of `ngram-cache`: they are counted, and no luck does better than the best or worse than the worst."""

from __future__ import annotations

from collections.abc import Callable

import literal
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.drafting.cache import BEST, WALK, WORST
from pytest_ngram.drafting.counts import Counts, new_counts
from pytest_ngram.drafting.lookup_stats import lookup_stats
from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Replayed, Request, Slot

LUCKS = (WORST, WALK, BEST)


def served(tokens: list[int], prompt: int, luck: int, static: Counts | None = None) -> Replayed:
    slot = Slot(
        parse("ngram-cache:n_draft=1"), longest=len(tokens), total=len(tokens), static=static, luck=luck
    )
    return slot.replay(Request(np.array(tokens, np.int64), prompt, len(tokens) - prompt, ended=False))


@pytest.mark.parametrize(
    ("then", "accepted"), [(7, {WORST: 0, BEST: 1}), (8, {WORST: 0, BEST: 1}), (9, {WORST: 0, BEST: 0})]
)
def test_a_tie_by_hand(then: int, accepted: dict[int, int]) -> None:
    """1 2 3 5 was followed by 7 and by 8: one tie, which the best luck wins where either of them comes."""
    prompt = [1, 2, 3, 5, 7, 0, 1, 2, 3, 5, 8, 0, 1, 2, 3]
    tokens = [*prompt, 5, then, 0]
    for luck, expected in accepted.items():
        found = served(tokens, len(prompt), luck)
        assert [tuple(row) for row in found.steps[:1, :2]] == [(1, expected)]
        assert found.ties >= 1


def test_without_a_tie_luck_decides_nothing() -> None:
    """Where one token came more often than all others, every luck drafts it."""
    prompt = [1, 2, 3, 5, 7, 0, 1, 2, 3, 5, 7, 0, 1, 2, 3, 5, 8, 0, 1, 2, 3]
    found = [served([*prompt, 5, 8, 0], len(prompt), luck) for luck in LUCKS]
    assert [each.ties for each in found] == [0, 0, 0]
    assert len({each.accepted for each in found}) == 1


def test_a_tie_of_the_static_table_is_counted(counts_of: Callable[[literal.Table], Counts]) -> None:
    """Two continuations of one 2-gram with one count are a tie of the table alone."""
    static = counts_of({(4, 5): {7: 3, 8: 3}})
    assert [served([1, 2, 4, 5, 7, 6], 3, luck, static).accepted for luck in (WORST, BEST)] == [0, 1]
    assert [served([1, 2, 4, 5, 8, 6], 3, luck, static).accepted for luck in (WORST, BEST)] == [0, 1]
    assert served([1, 2, 4, 5, 8, 6], 3, WALK, static).ties == 1


@given(text=st.lists(st.integers(0, 5), min_size=20, max_size=200))
def test_luck_is_bounded_step_by_step(text: list[int]) -> None:
    """With drafts of one token, each accepted or not by its own step, WALK lies between WORST and BEST."""
    worst, walk, best = (lookup_stats(text, n_ctx=16, n_draft=1, luck=luck) for luck in LUCKS)
    assert worst.accepted <= walk.accepted <= best.accepted
    if walk.ties == 0:
        assert worst.accepted == best.accepted


@given(text=st.lists(st.integers(0, 3), min_size=20, max_size=120), n_draft=st.integers(1, 5))
def test_best_and_worst_are_ties_alone(text: list[int], n_draft: int) -> None:
    """A text without any tie is drafted alike by all lucks, whatever the length of a draft."""
    found = [lookup_stats(text, n_ctx=16, n_draft=n_draft, luck=luck, static=new_counts(0)) for luck in LUCKS]
    if all(each.ties == 0 for each in found):
        assert len({(each.drafted, each.accepted) for each in found}) == 1
