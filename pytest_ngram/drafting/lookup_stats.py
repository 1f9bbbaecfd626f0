"""What `llama-lookup-stats` counts: the tables of `ngram-cache` over a text, without a model.

The tool cuts a text into chunks of one context's length, drafts through each as if it were generated, learns
every token, and adds what a chunk taught to the dynamic table. So it is another drafter than the server's,
which learns less and whose draft is 8 tokens; but the tables are the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_ngram.drafting.cache import PAST_BEGIN, TIES, WALK, Cache, draft_tokens, new_cache
from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.counts import Counts, clear, learn_last, merge, new_counts


@dataclass(frozen=True)
class Stats:
    """Tokens drafted and accepted; ties and undefined reads as `slot.Replayed`."""

    drafted: int
    accepted: int
    ties: int
    undefined: int


def lookup_stats(
    tokens: Sequence[int], *, n_ctx: int, n_draft: int, static: Counts | None = None, luck: int = WALK
) -> Stats:
    """Count as `llama-lookup-stats -c n_ctx --spec-draft-n-max n_draft` with an empty dynamic table.

    Args:
        tokens: the whole text as the tool tokenizes it.
        n_ctx: tokens of a chunk; what is left at the end, up to one whole chunk, is not looked at.
        n_draft: tokens that a draft may have.
        static: the table of `-lcs`.
        luck: who gets a tie.
    """
    text = np.asarray(tokens, np.int64)
    state = new_cache(n_draft, False, n_ctx, luck=luck, dynamic=new_counts(len(text)), static=static)
    drafted, accepted = _chunks(state, text, n_ctx, np.zeros(max(n_draft, 1), np.int64))
    return Stats(int(drafted), int(accepted), int(state.now[TIES]), int(state.now[PAST_BEGIN]))


@kernel
def _chunks(state: Cache, text: Longs, n_ctx: int, out: Longs) -> tuple[int, int]:
    drafted, accepted = 0, 0
    for begin in range(0, len(text) - n_ctx, n_ctx):
        chunk = text[begin : begin + n_ctx]
        end = 1
        while end < n_ctx:
            count = draft_tokens(state, chunk, end, n_ctx, out)
            drafted += count
            kept = 0
            while kept < count and end < n_ctx and out[kept] == chunk[end]:
                kept += 1
                learn_last(state.context, chunk, 0, end, end + 1)
                end += 1
            accepted += kept
            if end < n_ctx:
                learn_last(state.context, chunk, 0, end, end + 1)
                end += 1
        merge(state.dynamic, state.context)
        clear(state.context)
    return drafted, accepted
