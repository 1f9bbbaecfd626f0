"""How the keys and counts of a table are spread: what pruning would take, and what a draft would rest on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_ngram.table import Counts, Longs


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a table's 2-grams.

    Args:
        keys_by_pairs: how many keys have 1, 2, 3, and 4 or more continuations.
        most_pairs: continuations of the key that has most.
        seen: the counts of all pairs, summed.
        pairs_seen_once: pairs whose count is 1.
        median_seen: of the sums of the keys' counts.
        by_half, by_most, certain: keys with at least 2 counts, whose most frequent continuation has at least
            half, at least 80 %, or all of them. From those by half llama.cpp drafts by the table alone.
        ids: different token ids, in keys and pairs.
    """

    keys_by_pairs: tuple[int, int, int, int]
    most_pairs: int
    seen: int
    pairs_seen_once: int
    median_seen: float
    by_half: int
    by_most: int
    certain: int
    ids: int


def spread_of(counts: Counts) -> Spread:
    """Look at the counts of a table; of one without 2-grams everything is 0."""
    starts = counts.key_starts()
    if not len(starts):
        return Spread((0, 0, 0, 0), 0, 0, 0, 0.0, 0, 0, 0, 0)
    n_pairs = np.diff(starts, append=counts.pairs)
    total: Longs = np.add.reduceat(counts.count, starts)
    top: Longs = np.maximum.reduceat(counts.count, starts)
    repeated = total >= 2
    few = np.bincount(np.minimum(n_pairs, 4), minlength=5)
    return Spread(
        keys_by_pairs=(int(few[1]), int(few[2]), int(few[3]), int(few[4])),
        most_pairs=int(n_pairs.max()),
        seen=int(total.sum()),
        pairs_seen_once=int(np.count_nonzero(counts.count == 1)),
        median_seen=float(np.median(total)),
        by_half=int(np.count_nonzero(repeated & (2 * top >= total))),
        by_most=int(np.count_nonzero(repeated & (5 * top >= 4 * total))),
        certain=int(np.count_nonzero(repeated & (top == total))),
        ids=len(np.unique(np.concatenate((counts.key_a, counts.key_b, counts.third)))),
    )
