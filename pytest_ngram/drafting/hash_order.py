"""The order in which a libstdc++ `unordered_map<int, …>` is walked, from the order in which its keys came.

Ties between equally good tokens go to the one that the walk meets first, so on builds with libstdc++ (Linux)
they can be told; other libraries walk otherwise. Keys are their own hash, buckets are primes, a key that
comes to an empty bucket goes to the front of all, another one to the front of its bucket; growing moves them
one by one.
Source: the behaviour of GCC's library, checked against a real engine and `llama-lookup-stats` by the tests.
"""

from __future__ import annotations

import numpy as np

from pytest_ngram.drafting.compiled import Longs, kernel

# bucket counts as a map grows from empty by single keys, which double at least
BUCKETS = np.array(
    [
        13,
        29,
        59,
        127,
        257,
        541,
        1109,
        2357,
        5087,
        10273,
        20753,
        42043,
        85229,
        172933,
        351061,
        712697,
        1447153,
    ],
    np.int64,
)
_EMPTY = -2
_FRONT = -1


@kernel
def walk_order(keys: Longs, n: int, out: Longs) -> None:
    """Write the places in `keys[:n]` in the order of the walk.

    Args:
        keys: int64, different and not negative, in the order in which they were put in.
        n: how many.
        out: int64 of shape (n,) or longer.

    Worked example: 5, 18, 7 with 13 buckets. 5 is alone in bucket 5; 18 comes to bucket 5 too and stands
    before it; 7 comes to an empty bucket and goes to the front: the walk is 7, 18, 5, which are places 2, 1,
    0.
    """
    size = 0
    n_buckets = BUCKETS[0]
    after = np.full(n, -1, np.int64)
    before_first = np.full(1, -1, np.int64)
    buckets = np.full(n_buckets, _EMPTY, np.int64)
    for place in range(n):
        if size + 1 > n_buckets:
            size += 1
            grown = 0
            while BUCKETS[grown] <= n_buckets:
                grown += 1
            n_buckets = BUCKETS[grown]
            buckets = np.full(n_buckets, _EMPTY, np.int64)
            node = before_first[0]
            before_first[0] = -1
            while node != -1:
                following = after[node]
                _put(node, keys, after, before_first, buckets)
                node = following
        else:
            size += 1
        _put(place, keys, after, before_first, buckets)
    node = before_first[0]
    at = 0
    while node != -1:
        out[at] = node
        at += 1
        node = after[node]


@kernel
def _put(node: int, keys: Longs, after: Longs, before_first: Longs, buckets: Longs) -> None:
    n_buckets = len(buckets)
    bucket = keys[node] % n_buckets
    before = buckets[bucket]
    if before == _EMPTY:
        first = before_first[0]
        after[node] = first
        before_first[0] = node
        if first != -1:
            buckets[keys[first] % n_buckets] = node
        buckets[bucket] = _FRONT
    elif before == _FRONT:
        after[node] = before_first[0]
        before_first[0] = node
    else:
        after[node] = after[before]
        after[before] = node
