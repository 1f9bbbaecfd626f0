"""Which pruning of a table would fit into the memory that there is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_ngram.table import Counts
from pytest_ngram.table.price import Law

# Mild first: keys go by how seldom they were seen, and below four continuations a key seldom loses a draft.
_MIN_TOTALS = (2, 3, 5, 8, 12, 20, 32, 50, 80, 128, 200, 320, 500, 1000, 2000, 5000, 10_000)
_TOP_KS = (4, 2)
_MIN_COUNT = 2  # llama.cpp drafts nothing from a key whose counts sum to 1


@dataclass(frozen=True, slots=True)
class Pruning:
    """A pruning by its flags, what it leaves of a table, and what that needs before a start."""

    top_k: int
    min_total: int
    keys: int
    pairs: int
    need_bytes: int

    @property
    def flags(self) -> str:
        """As `pytest-ngram table build` takes them."""
        return f"--top-k {self.top_k} --min-total {self.min_total}"


def mildest_that_fits(counts: Counts, law: Law, slots: int, room_bytes: int) -> Pruning | None:
    """Return the mildest pruning after which a table fits, None where none leaves anything that does.

    Each is what `table.counts.prune` with this `top_k` and `min_total`, and a `min_count` of 2, would leave;
    of a table that was pruned before that is what is left of it, not of its corpus.

    Args:
        counts: of the table as it is.
        law: what tables cost on the engine.
        slots: `-np`.
        room_bytes: what the table may need.
    """
    starts = counts.key_starts()
    if not len(starts):
        return None
    total = np.add.reduceat(counts.count, starts)
    often = np.add.reduceat((counts.count >= _MIN_COUNT).astype(np.int64), starts)
    for min_total in _MIN_TOTALS:
        left = often[(total >= min_total) & (often > 0)]
        for top_k in _TOP_KS:
            keys, pairs = len(left), int(np.minimum(left, top_k).sum())
            need_bytes = law.price(keys, pairs, slots).need_bytes
            if keys and need_bytes <= room_bytes:
                return Pruning(top_k, min_total, keys, pairs, need_bytes)
    return None
