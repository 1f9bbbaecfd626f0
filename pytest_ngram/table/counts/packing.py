"""Three token ids as one integer, so that triples sort as numbers. Pure."""

from __future__ import annotations

import numpy as np

from pytest_ngram.errors import TableError
from pytest_ngram.table import ID_BITS, ID_LIMIT, Counts, Ids, Longs

THIRD_MASK = ID_LIMIT - 1


def require_packable(ids: Ids | Longs) -> None:
    """Raise `TableError` if an id is below 0 or needs more than 21 bits."""
    low, high = int(ids.min(initial=0)), int(ids.max(initial=0))
    if low < 0 or high >= ID_LIMIT:
        raise TableError(
            f"token id {low if low < 0 else high} cannot be counted",
            checked=[f"ids that came with it: {low} to {high}; allowed: 0 to {ID_LIMIT - 1}"],
            fix="let the tokenizer of the model that the table is for make the ids",
        )


def packed(key_a: Ids | Longs, key_b: Ids | Longs, third: Ids | Longs) -> Longs:
    """(a, b, third) as a · 2⁴² + b · 2²¹ + third: int64 of their shape. The ids must be packable."""
    triples = key_a.astype(np.int64)
    for ids in (key_b, third):
        triples <<= ID_BITS
        triples |= ids
    return triples


def unpacked(triples: Longs, count: Longs) -> Counts:
    """Ascending triples, no value twice, and their counts, as the pairs of a table."""
    rest = triples >> ID_BITS
    return Counts(
        (rest >> ID_BITS).astype(np.int32),
        (rest & THIRD_MASK).astype(np.int32),
        (triples & THIRD_MASK).astype(np.int32),
        count,
    )


def group_starts(triples: Longs) -> Longs:
    """The row at which each different value of ascending triples begins: int64."""
    new = np.ones(len(triples), np.bool_)
    np.not_equal(triples[1:], triples[:-1], out=new[1:])
    return np.flatnonzero(new)
