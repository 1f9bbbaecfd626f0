"""The static lookup table: counts, file format, build.

Here stands the one type that the pure rooms `table.counts` and `table.format` share, with the limits of
the integers that llama.cpp computes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

INT32_MAX = 2**31 - 1

# Three ids of a triple share one int64: 21 bits hold every vocabulary in use (262 144 tokens take 18).
ID_BITS = 21
ID_LIMIT = 1 << ID_BITS

# llama.cpp computes `100 * count` and `50 * (sum of the counts of one key)` in int32.
COUNT_LIMIT = INT32_MAX // 100
KEY_SUM_LIMIT = INT32_MAX // 50


@dataclass(frozen=True, eq=False, slots=True)
class Counts:
    """The pairs of a table, sorted by (`key_a`, `key_b`, `third`), no pair twice.

    A *key* is two tokens; a *pair* is a third token and how often it followed that key. Row i says that
    `third[i]` followed `key_a[i]`, `key_b[i]` `count[i]` times.

    Args:
        key_a, key_b, third: token ids, int32, each of shape (pairs,).
        count: int64 of shape (pairs,), each above 0.
    """

    key_a: Ids
    key_b: Ids
    third: Ids
    count: Longs

    @property
    def pairs(self) -> int:
        """How many pairs there are, over all keys."""
        return len(self.count)

    @property
    def keys(self) -> int:
        """How many different keys there are."""
        return len(self.key_starts())

    def key_starts(self) -> Longs:
        """The row at which each key begins, ascending: int64 of shape (keys,)."""
        if not self.pairs:
            return np.zeros(0, np.int64)
        new = (self.key_a[1:] != self.key_a[:-1]) | (self.key_b[1:] != self.key_b[:-1])
        return np.concatenate(([0], np.flatnonzero(new) + 1)).astype(np.int64)

    def where(self, keep: npt.NDArray[np.bool_] | Longs) -> Counts:
        """The rows that a mask or an index selects; an index must keep the order of the rows."""
        return Counts(self.key_a[keep], self.key_b[keep], self.third[keep], self.count[keep])

    def equals(self, other: Counts) -> bool:
        """Whether both hold the same pairs with the same counts."""
        return (
            np.array_equal(self.key_a, other.key_a)
            and np.array_equal(self.key_b, other.key_b)
            and np.array_equal(self.third, other.third)
            and np.array_equal(self.count, other.count)
        )
