"""What `llama-lookup-stats` counts: the tables of `ngram-cache` over a text, without a model.

The tool cuts a text into chunks of one context's length, drafts through each as if it were generated, learns
every token, and adds what a chunk taught to the dynamic table. So it is another drafter than the server's,
which learns less and whose draft is 8 tokens; but the tables are the same code.

At the second token of a chunk the tool asks for n-grams of 3 and 4 tokens too. The index of a token before
the chunk is below 0, and as an unsigned number it counts as one of the draft: the tool reads 2 places before
the draft's own memory, where a glibc allocator keeps the size of the block, 32 bytes and a flag. So
token 33 stands before each chunk (`OUTSIDE`), and a chunk whose first two tokens once followed a token 33 may
draft otherwise. What it reads further away has no such value, and is taken to match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_ngram.drafting.cache import PAST_BEGIN, TIES, WALK, Cache, draft_tokens, new_cache
from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.counts import Counts, clear, learn_last, merge, new_counts

# of a block of 32 bytes in glibc's main arena, the smallest, with its neighbour in use
OUTSIDE = 33


@dataclass(frozen=True, eq=False)
class Stats:
    """What was drafted and accepted.

    Args:
        by_chunk: int64 of shape (chunks, 2): tokens drafted and accepted. What a chunk teaches does not
            depend on what was drafted in it, so each chunk's counts are its own.
        ties, undefined: as `slot.Replayed`.
    """

    by_chunk: Longs
    ties: int
    undefined: int

    @property
    def drafted(self) -> int:
        """Tokens drafted."""
        return int(self.by_chunk[:, 0].sum())

    @property
    def accepted(self) -> int:
        """Tokens accepted."""
        return int(self.by_chunk[:, 1].sum())


def lookup_stats(
    tokens: Sequence[int],
    *,
    n_ctx: int,
    n_draft: int,
    static: Counts | None = None,
    luck: int = WALK,
    outside: int = OUTSIDE,
) -> Stats:
    """Count as `llama-lookup-stats -c n_ctx --spec-draft-n-max n_draft` with an empty dynamic table.

    Args:
        tokens: the whole text as the tool tokenizes it.
        n_ctx: tokens of a chunk; what is left at the end, up to one whole chunk, is not looked at.
        n_draft: tokens that a draft may have.
        static: the table of `-lcs`.
        luck: who gets a tie.
        outside: the token that is read before the draft's memory; `counts.NONE` for none, as in a tool
            without this fault.
    """
    text = np.asarray(tokens, np.int64)
    state = new_cache(
        n_draft, False, n_ctx, luck=luck, outside=outside, dynamic=new_counts(len(text)), static=static
    )
    by_chunk = np.zeros((max(len(text) - 1, 0) // n_ctx, 2), np.int64)
    _chunks(state, text, n_ctx, np.zeros(max(n_draft, 1), np.int64), by_chunk)
    return Stats(by_chunk, int(state.now[TIES]), int(state.now[PAST_BEGIN]))


@kernel
def _chunks(state: Cache, text: Longs, n_ctx: int, out: Longs, by_chunk: Longs) -> None:
    for number in range(len(by_chunk)):
        chunk = text[number * n_ctx : (number + 1) * n_ctx]
        end = 1
        while end < n_ctx:
            count = draft_tokens(state, chunk, end, n_ctx, out)
            by_chunk[number, 0] += count
            kept = 0
            while kept < count and end < n_ctx and out[kept] == chunk[end]:
                kept += 1
                learn_last(state.context, chunk, 0, end, end + 1)
                end += 1
            by_chunk[number, 1] += kept
            if end < n_ctx:
                learn_last(state.context, chunk, 0, end, end + 1)
                end += 1
        merge(state.dynamic, state.context)
        clear(state.context)
