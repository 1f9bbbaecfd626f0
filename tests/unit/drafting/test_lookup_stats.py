"""What `llama-lookup-stats` counts, against the literal drafters driven as that tool drives its own."""

from __future__ import annotations

from collections.abc import Callable

import literal
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.drafting.counts import NONE, Counts
from pytest_ngram.drafting.lookup_stats import OUTSIDE, lookup_stats

NOWHERE = -5  # equal to no token


class StatsTwin(literal.CacheTwin):
    """The tables of `ngram-cache` with the tool's own loop around them."""

    def __init__(self, static: literal.Table, n_draft: int, outside: int) -> None:
        super().__init__(static, {}, n_draft)
        self.outside = outside

    def draft_only(self, text: list[int]) -> list[int]:
        """Draft; before the second token of a chunk there is memory that is no token of it."""
        return super().draft_only([NOWHERE, self.outside, *text] if len(text) == 2 else text)

    def chunk(self, tokens: list[int]) -> tuple[int, int]:
        """Draft through a chunk, then add what it taught to the dynamic table."""
        text, drafted, accepted = tokens[:1], 0, 0
        while len(text) < len(tokens):
            draft = self.draft_only(text)
            drafted += len(draft)
            for token in draft:
                if len(text) == len(tokens) or tokens[len(text)] != token:
                    break
                accepted += 1
                text.append(token)
                self.learn(text, 1)
            if len(text) < len(tokens):
                text.append(tokens[len(text)])
                self.learn(text, 1)
        for key, part in self.context.items():
            known = self.dynamic.get(key)
            if known is None:
                self.dynamic[key] = dict(part)
                continue
            for token in literal.walk(list(part)):
                known[token] = known.get(token, 0) + part[token]
        self.context = {}
        return drafted, accepted


PARTS = st.dictionaries(st.integers(0, 5), st.sampled_from([1, 2, 3, 60]), min_size=1, max_size=4)
TABLES = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), PARTS, max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(st.integers(0, 5), min_size=1, max_size=150),
    n_ctx=st.integers(1, 24),
    n_draft=st.integers(1, 9),
    table=TABLES,
    outside=st.sampled_from([NONE, 0, 3]),
)
def test_chunks_are_those_of_the_literal_tool(  # noqa: PLR0917 - each is drawn
    text: list[int],
    n_ctx: int,
    n_draft: int,
    table: literal.Table,
    outside: int,
    counts_of: Callable[[literal.Table], Counts],
) -> None:
    """Drafted and accepted of every chunk, and the ties, with whatever token stands before a chunk."""
    twin = StatsTwin(table, n_draft, NOWHERE if outside == NONE else outside)
    expected = [
        twin.chunk(text[begin : begin + n_ctx])
        for begin in range(0, len(text), n_ctx)
        if begin + n_ctx < len(text)
    ]
    found = lookup_stats(text, n_ctx=n_ctx, n_draft=n_draft, static=counts_of(table), outside=outside)
    assert [tuple(map(int, row)) for row in found.by_chunk] == expected
    assert (found.drafted, found.accepted) == (sum(n for n, _ in expected), sum(n for _, n in expected))
    assert found.ties == twin.ties


def test_a_text_of_one_chunk_is_not_looked_at() -> None:
    """As the tool, which wants a token after the chunk."""
    assert len(lookup_stats([1] * 8, n_ctx=8, n_draft=3).by_chunk) == 0
    assert len(lookup_stats([1] * 9, n_ctx=8, n_draft=3).by_chunk) == 1


@pytest.mark.parametrize(("outside", "accepted"), [(OUTSIDE, 1), (NONE, 0)])
def test_a_token_before_the_chunk_drafts(outside: int, accepted: int) -> None:
    """33 1 2 was followed by 9 every time, and 1 2 by another token each time: only with 33 it is sure.

    The last chunk begins with 1 2, so the tool, which reads 33 before it, drafts 9, and accepts it.
    """
    taught = [token for other in range(40, 48) for token in (33, 1, 2, 9, 1, 2, other)]
    n_ctx = len(taught)
    text = [*taught, 1, 2, 9, *range(50, 50 + n_ctx - 3), 0]
    found = lookup_stats(text, n_ctx=n_ctx, n_draft=1, outside=outside)
    assert found.by_chunk[1, 1] == accepted
