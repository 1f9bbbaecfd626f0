"""Tables to bytes and back. Pure."""

from __future__ import annotations

import numpy as np

from pytest_ngram.errors import TableError
from pytest_ngram.table import COUNT_LIMIT, Counts
from pytest_ngram.table.format.checks import HEAD_WORDS, DeadWeight, checked


def encode(counts: Counts) -> bytes:
    """Write a table: keys ascending, the pairs of a key by ascending token: equal counts give equal bytes.

    Raises:
        TableError: a count is not within 1 to `COUNT_LIMIT`: cap it first (`table.counts.cap_counts`).
    """
    if counts.pairs and not 1 <= int(counts.count.min()) <= int(counts.count.max()) <= COUNT_LIMIT:
        raise TableError(
            "a count cannot be written to a table",
            checked=[f"counts {counts.count.min()} to {counts.count.max()}; allowed: 1 to {COUNT_LIMIT}"],
            fix="cap the counts before writing them",
        )
    starts = counts.key_starts()
    n_pairs = np.diff(starts, append=counts.pairs)
    heads = HEAD_WORDS * np.arange(len(starts)) + 2 * starts
    words = np.empty(HEAD_WORDS * len(starts) + 2 * counts.pairs, np.dtype("<i4"))
    words[heads] = counts.key_a[starts]
    words[heads + 1] = counts.key_b[starts]
    words[heads + 2] = words[heads + 3] = -1
    words[heads + 4] = n_pairs
    # before a pair stand the heads of all records up to its own, and two words for each earlier pair
    pair_at = np.repeat(HEAD_WORDS * np.arange(1, len(starts) + 1), n_pairs)
    pair_at += np.arange(0, 2 * counts.pairs, 2)
    words[pair_at] = counts.third
    words[pair_at + 1] = counts.count
    return words.tobytes()


def decode(data: bytes, *, dead_weight: DeadWeight = "error") -> Counts:
    """Read a table in any order of its records. Raises `TableError` as `verify` does.

    Args:
        data: the whole file.
        dead_weight: "count" leaves out the records that are no 2-grams.
    """
    parsed = checked(data, None, dead_weight)
    rows = parsed.is_bigram[parsed.pair_key]
    keys = parsed.keys[parsed.pair_key[rows]]
    counts = Counts(keys[:, 0], keys[:, 1], parsed.token[rows], parsed.count[rows].astype(np.int64))
    return counts.where(np.lexsort((counts.third, counts.key_b, counts.key_a)))
