"""What followed each n-gram of 1 to 4 tokens, how often: the tables of `ngram-cache`.

An n-gram is a walk backwards through a tree, its last token first, so one walk meets all that end at one
place. Nodes and counts lie in flat arrays and are found by open hashing. The counts of a node stay in the
order in which their tokens came, which decides ties (`hash_order`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.hash_order import walk_order

MOST = 4  # LLAMA_NGRAM_MAX
NONE = -1
N_NODES, N_PAIRS = range(2)
TOTAL, TOP, FIRST, LAST, SIZE = range(5)
TOKEN, COUNT, NEXT = range(3)
_SPREAD = 0x9E3779B9 >> 2  # 30 bits, so that a product with 32 bits stays an int64
_LOW = (1 << 32) - 1
_SHIFT = 22  # ids need 21 bits at most, and one more for what is below 0


class Counts(NamedTuple):
    """The counts of n-grams.

    Args:
        size: int64 of shape (2,): nodes, pairs.
        nodes: int64 of shape (nodes, 5): sum and highest of its counts, its first and last pair, pairs.
        pairs: int64 of shape (pairs, 3): token, count, next pair of the node.
        node_keys, node_at: int64, open hashing of (node, token) → the node one token longer.
        pair_keys, pair_at: the same → the pair.
    """

    size: Longs
    nodes: Longs
    pairs: Longs
    node_keys: Longs
    node_at: Longs
    pair_keys: Longs
    pair_at: Longs


def new_counts(tokens: int) -> Counts:
    """Return empty counts with room for all n-grams of so many tokens."""
    room = MOST * tokens + 16
    slots = 1 << (2 * room - 1).bit_length()
    return Counts(
        size=np.array([1, 0], np.int64),
        nodes=np.tile(np.array([0, 0, NONE, NONE, 0], np.int64), (room, 1)),
        pairs=np.zeros((room, 3), np.int64),
        node_keys=np.full(slots, NONE, np.int64),
        node_at=np.zeros(slots, np.int64),
        pair_keys=np.full(slots, NONE, np.int64),
        pair_at=np.zeros(slots, np.int64),
    )


def roomy(counts: Counts, tokens: int) -> Counts:
    """Return the counts, moved to where there is room for so many more tokens if there is none yet."""
    used = max(int(counts.size[N_NODES]), int(counts.size[N_PAIRS]))
    if used + MOST * tokens + 16 <= len(counts.nodes):
        return counts
    larger = new_counts(max(2 * used, used + MOST * tokens) // MOST + 1)
    for old, new in ((counts.nodes, larger.nodes), (counts.pairs, larger.pairs)):
        new[: len(old)] = old
    larger.size[:] = counts.size
    _move(counts.node_keys, counts.node_at, larger.node_keys, larger.node_at)
    _move(counts.pair_keys, counts.pair_at, larger.pair_keys, larger.pair_at)
    return larger


@kernel
def _move(old_keys: Longs, old_at: Longs, keys: Longs, at: Longs) -> None:
    for slot in range(len(old_keys)):
        if old_keys[slot] != NONE:
            free = slot_of(keys, old_keys[slot])
            keys[free] = old_keys[slot]
            at[free] = old_at[slot]


@kernel
def slot_of(keys: Longs, key: int) -> int:
    """The slot that has the key, or the free one where it belongs."""
    mask = len(keys) - 1
    slot = (((key ^ (key >> _SHIFT)) & _LOW) * _SPREAD >> 20) & mask
    while keys[slot] != NONE and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def child(counts: Counts, node: int, token: int) -> int:
    """The node one token longer than `node` to the left; -1 for none."""
    key = (node << _SHIFT) + token
    slot = slot_of(counts.node_keys, key)
    return int(counts.node_at[slot]) if counts.node_keys[slot] == key else NONE


@kernel
def grow_child(counts: Counts, node: int, token: int) -> int:
    """As `child`, which is made where there is none."""
    key = (node << _SHIFT) + token
    slot = slot_of(counts.node_keys, key)
    if counts.node_keys[slot] == key:
        return int(counts.node_at[slot])
    new = counts.size[N_NODES]
    counts.size[N_NODES] = new + 1
    counts.node_keys[slot] = key
    counts.node_at[slot] = new
    return int(new)


@kernel
def find_pair(counts: Counts, node: int, token: int) -> int:
    """The pair of a node and a token; -1 for none."""
    key = (node << _SHIFT) + token
    slot = slot_of(counts.pair_keys, key)
    return int(counts.pair_at[slot]) if counts.pair_keys[slot] == key else NONE


@kernel
def add(counts: Counts, node: int, token: int, count: int) -> None:
    """Add to what was seen of a token after a node's n-gram."""
    key = (node << _SHIFT) + token
    slot = slot_of(counts.pair_keys, key)
    row = counts.nodes[node]
    if counts.pair_keys[slot] == key:
        pair = counts.pair_at[slot]
    else:
        pair = counts.size[N_PAIRS]
        counts.size[N_PAIRS] = pair + 1
        counts.pair_keys[slot] = key
        counts.pair_at[slot] = pair
        counts.pairs[pair, TOKEN] = token
        counts.pairs[pair, COUNT] = 0
        counts.pairs[pair, NEXT] = NONE
        if row[FIRST] == NONE:
            row[FIRST] = pair
        else:
            counts.pairs[row[LAST], NEXT] = pair
        row[LAST] = pair
        row[SIZE] += 1
    counts.pairs[pair, COUNT] += count
    row[TOTAL] += count
    row[TOP] = max(row[TOP], counts.pairs[pair, COUNT])


@kernel
def learn(counts: Counts, tokens: Longs, begin: int, end: int) -> None:
    """Count the n-grams of 1 to 4 tokens in `tokens[begin:end]`, as `common_ngram_cache_update`."""
    learn_last(counts, tokens, begin, begin + 1, end)


@kernel
def learn_last(counts: Counts, tokens: Longs, begin: int, first: int, end: int) -> None:
    """Count what `tokens[first:end]` followed, n-grams that begin at `begin` or later only."""
    for at in range(max(first, begin + 1), end):
        node = 0
        for size in range(1, min(MOST, at - begin) + 1):
            node = grow_child(counts, node, tokens[at - size])
            add(counts, node, tokens[at], 1)


@kernel
def clear(counts: Counts) -> None:
    """Forget everything."""
    for node in range(counts.size[N_NODES]):
        counts.nodes[node, TOTAL] = counts.nodes[node, TOP] = counts.nodes[node, SIZE] = 0
        counts.nodes[node, FIRST] = counts.nodes[node, LAST] = NONE
    if counts.size[N_NODES] > 1:
        counts.node_keys[:] = NONE
        counts.pair_keys[:] = NONE
    counts.size[N_NODES] = 1
    counts.size[N_PAIRS] = 0


@kernel
def read_table(counts: Counts, keys: Longs, starts: Longs, tokens: Longs, numbers: Longs) -> None:
    """Put a table's records in, as `common_ngram_cache_load`: of equal keys or tokens the first one counts.

    Args:
        counts: where to.
        keys: int64 of shape (records, 4), unused places -1.
        starts: int64 of shape (records + 1,), where each record's pairs begin.
        tokens, numbers: int64 of shape (pairs,): token and count.
    """
    for record in range(len(keys)):
        size = 0
        while size < MOST and keys[record, size] != NONE:
            size += 1
        node = 0
        for i in range(size - 1, -1, -1):
            node = grow_child(counts, node, keys[record, i])
        if counts.nodes[node, FIRST] != NONE or size == 0:
            continue
        for pair in range(starts[record], starts[record + 1]):
            if find_pair(counts, node, tokens[pair]) == NONE:
                add(counts, node, tokens[pair], numbers[pair])


@kernel
def merge(target: Counts, added: Counts) -> None:
    """Add one table to another, as `common_ngram_cache_merge`; the order of ties goes with it."""
    parents = np.zeros(added.size[N_NODES], np.int64)
    last = np.zeros(added.size[N_NODES], np.int64)
    for slot in range(len(added.node_keys)):
        if added.node_keys[slot] != NONE:
            parents[added.node_at[slot]] = added.node_keys[slot] >> _SHIFT
            last[added.node_at[slot]] = added.node_keys[slot] & ((1 << _SHIFT) - 1)
    there = np.zeros(added.size[N_NODES], np.int64)
    for node in range(1, added.size[N_NODES]):  # a parent's number is below its children's
        there[node] = grow_child(target, there[parents[node]], last[node])
        _merge_node(target, there[node], added, node)


@kernel
def _merge_node(target: Counts, to: int, added: Counts, node: int) -> None:
    """A new key is copied as it is; of a known one the pairs come in the order of the walk."""
    n = added.nodes[node, SIZE]
    if n == 0:
        return
    pairs = np.zeros(n, np.int64)
    tokens = np.zeros(n, np.int64)
    pair = added.nodes[node, FIRST]
    for i in range(n):
        pairs[i] = pair
        tokens[i] = added.pairs[pair, TOKEN]
        pair = added.pairs[pair, NEXT]
    order = np.arange(n)
    if target.nodes[to, FIRST] != NONE:
        walk_order(tokens, n, order)
    for i in range(n):
        pair = pairs[order[i]]
        add(target, to, added.pairs[pair, TOKEN], added.pairs[pair, COUNT])
