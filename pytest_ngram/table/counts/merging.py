"""Adding up the counts of two tables. Pure."""

from __future__ import annotations

import numpy as np

from pytest_ngram.table import Counts, Longs
from pytest_ngram.table.counts.packing import group_starts, packed, require_packable, unpacked


def merge(left: Counts, right: Counts) -> Counts:
    """Add up two sets of counts: {(1 2)→3: 2} and {(1 2)→3: 1, (1 2)→4: 1} make {(1 2)→3: 3, (1 2)→4: 1}.

    The same sums as `llama-lookup-merge`, in int64: cap them before they are written.

    Raises:
        TableError: an id is below 0 or needs more than 21 bits.
    """
    triples = np.concatenate((_packed(left), _packed(right)))
    # "stable" is a merge sort here, which finds the two ascending halves and only merges them
    order = np.argsort(triples, kind="stable")
    triples = triples[order]
    starts = group_starts(triples)
    count = np.concatenate((left.count, right.count))[order]
    return unpacked(triples[starts], np.add.reduceat(count, starts) if len(starts) else count)


def _packed(counts: Counts) -> Longs:
    columns = (counts.key_a, counts.key_b, counts.third)
    for ids in columns:
        require_packable(ids)
    return packed(*columns)
