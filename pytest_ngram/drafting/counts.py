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
TOTAL, TOP, BEST, EQUAL, FIRST, LAST, SIZE = range(7)
KEY, AT = range(2)
TOKEN, COUNT, NEXT = range(3)
_SPREAD = 0x9E3779B9 >> 2  # 30 bits, so that a product with 32 bits stays an int64
_LOW = (1 << 32) - 1
SHIFT = 22  # ids need 21 bits at most, and one more for what is below 0


class Counts(NamedTuple):
    """The counts of n-grams.

    Args:
        size: int64 of shape (2,): nodes, pairs.
        nodes: int64 of shape (nodes, 7): sum and highest of its counts, the first pair that came to the
            highest and how many have it, its first and last pair, how many it has.
        pairs: int64 of shape (pairs, 3): token, count, next pair of the node.
        node_slots: int64 of shape (slots, 2), open hashing of (node, token): the key, the node one token
            longer.
        pair_slots: the same: the key, the pair.
    """

    size: Longs
    nodes: Longs
    pairs: Longs
    node_slots: Longs
    pair_slots: Longs


def new_counts(tokens: int) -> Counts:
    """Return empty counts with room for all n-grams of so many tokens."""
    room = MOST * tokens + 16
    slots = 1 << (2 * room - 1).bit_length()
    return Counts(
        size=np.array([1, 0], np.int64),
        nodes=np.tile(np.array([0, 0, NONE, 0, NONE, NONE, 0], np.int64), (room, 1)),
        pairs=np.zeros((room, 3), np.int64),
        node_slots=np.full((slots, 2), NONE, np.int64),
        pair_slots=np.full((slots, 2), NONE, np.int64),
    )


@kernel
def slot_of(slots: Longs, key: int) -> int:
    """The slot that has the key, or the free one where it belongs."""
    mask = len(slots) - 1
    slot = (((key ^ (key >> SHIFT)) & _LOW) * _SPREAD >> 20) & mask
    while slots[slot, KEY] != NONE and slots[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def child(counts: Counts, node: int, token: int) -> int:
    """The node one token longer than `node` to the left; -1 for none."""
    key = (node << SHIFT) + token
    slot = slot_of(counts.node_slots, key)
    return int(counts.node_slots[slot, AT]) if counts.node_slots[slot, KEY] == key else NONE


@kernel
def grow_child(counts: Counts, node: int, token: int) -> int:
    """As `child`, which is made where there is none."""
    slots, key = counts.node_slots, (node << SHIFT) + token
    slot = slot_of(slots, key)
    if slots[slot, KEY] == key:
        return int(slots[slot, AT])
    new = counts.size[N_NODES]
    counts.size[N_NODES] = new + 1
    slots[slot, KEY], slots[slot, AT] = key, new
    return int(new)


@kernel
def find_pair(counts: Counts, node: int, token: int) -> int:
    """The pair of a node and a token; -1 for none."""
    key = (node << SHIFT) + token
    slot = slot_of(counts.pair_slots, key)
    return int(counts.pair_slots[slot, AT]) if counts.pair_slots[slot, KEY] == key else NONE


@kernel
def add(counts: Counts, node: int, token: int, count: int) -> None:
    """Add to what was seen of a token after a node's n-gram."""
    key = (node << SHIFT) + token
    slots, nodes, pairs = counts.pair_slots, counts.nodes, counts.pairs
    slot = slot_of(slots, key)
    if slots[slot, KEY] == key:
        pair = slots[slot, AT]
    else:
        pair = counts.size[N_PAIRS]
        counts.size[N_PAIRS] = pair + 1
        slots[slot, KEY], slots[slot, AT] = key, pair
        pairs[pair, TOKEN] = token
        pairs[pair, COUNT] = 0
        pairs[pair, NEXT] = NONE
        if nodes[node, FIRST] == NONE:
            nodes[node, FIRST] = pair
        else:
            pairs[nodes[node, LAST], NEXT] = pair
        nodes[node, LAST] = pair
        nodes[node, SIZE] += 1
    pairs[pair, COUNT] += count
    nodes[node, TOTAL] += count
    seen = pairs[pair, COUNT]
    if seen > nodes[node, TOP]:
        nodes[node, TOP], nodes[node, BEST], nodes[node, EQUAL] = seen, pair, 1
    elif seen == nodes[node, TOP]:
        nodes[node, EQUAL] += 1


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
        row = counts.nodes[node]
        row[:] = 0
        row[FIRST] = row[LAST] = row[BEST] = NONE
    if counts.size[N_NODES] > 1:
        counts.node_slots[:] = NONE
        counts.pair_slots[:] = NONE
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
    for slot in range(len(added.node_slots)):
        key, node = added.node_slots[slot, KEY], added.node_slots[slot, AT]
        if key != NONE:
            parents[node] = key >> SHIFT
            last[node] = key & ((1 << SHIFT) - 1)
    there = np.zeros(added.size[N_NODES], np.int64)
    for node in range(1, added.size[N_NODES]):  # a parent's number is below its children's
        there[node] = grow_child(target, there[parents[node]], last[node])
        _merge_node(target, there[node], added, node)


@kernel
def _merge_node(target: Counts, to: int, added: Counts, node: int) -> None:
    """A new key is copied as it is; of a known one the pairs come in the order of the walk."""
    n = added.nodes[node, SIZE]
    if n <= 1 or target.nodes[to, FIRST] == NONE:
        pair = added.nodes[node, FIRST]
        while pair != NONE:
            add(target, to, added.pairs[pair, TOKEN], added.pairs[pair, COUNT])
            pair = added.pairs[pair, NEXT]
        return
    pairs = np.zeros(n, np.int64)
    tokens = np.zeros(n, np.int64)
    pair = added.nodes[node, FIRST]
    for i in range(n):
        pairs[i] = pair
        tokens[i] = added.pairs[pair, TOKEN]
        pair = added.pairs[pair, NEXT]
    order = np.zeros(n, np.int64)
    walk_order(tokens, n, order)
    for i in range(n):
        pair = pairs[order[i]]
        add(target, to, added.pairs[pair, TOKEN], added.pairs[pair, COUNT])
