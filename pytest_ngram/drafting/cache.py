"""`ngram-cache`: drafts the token that followed the last 4, 3, 2 or 1 tokens often enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.counts import (
    AT,
    COUNT,
    EQUAL,
    FIRST,
    KEY,
    MOST,
    N_PAIRS,
    NEXT,
    NONE,
    SHIFT,
    SIZE,
    TOKEN,
    TOP,
    TOTAL,
    Counts,
    child,
    clear,
    find_pair,
    learn,
    learn_last,
    new_counts,
    slot_of,
)
from pytest_ngram.drafting.counts import (
    BEST as BEST_PAIR,
)
from pytest_ngram.drafting.hash_order import walk_order

# draft_min_sample_size_*, draft_min_percent_* of common/ngram-cache.cpp, by n-gram size 1 to 4
_SAMPLES = np.array([[2, 2, 1, 1], [4, 3, 2, 2]], np.int64)
_PERCENT = np.array([[66, 50, 50, 50], [75, 66, 66, 66]], np.int64)
LAX, STRICT = range(2)
STATIC_SIZE = 2  # LLAMA_NGRAM_STATIC
_INT32 = 1 << 31

N_DRAFT, MENDED, LUCK, OUTSIDE = range(4)
LEARNT_TO, TIES, PAST_BEGIN = range(3)
# who gets a tie: the walk of libstdc++, what will be accepted, what will not
WALK, BEST, WORST = range(3)


class Cache(NamedTuple):
    """The state of one slot.

    Args:
        numbers: int64 of shape (4,): how many tokens a draft may have, mended, who gets a tie, and what C++
            reads two places before its draft, -1 for nothing that is known.
        now: int64 of shape (3,): how many tokens are learnt, ties met, n-grams that began before the text.
        context, dynamic, static: the tables.
        steps: int64 of shape (8,), scratch: the nodes of the n-grams of 1 to 4 tokens, in two tables.
    """

    numbers: Longs
    now: Longs
    context: Counts
    dynamic: Counts
    static: Counts
    steps: Longs


def new_cache(
    n_draft: int,
    mended: bool,
    capacity: int,
    *,
    luck: int = WALK,
    outside: int = NONE,
    dynamic: Counts | None = None,
    static: Counts | None = None,
) -> Cache:
    """Return it with an empty context that has room for `capacity` tokens."""
    return Cache(
        numbers=np.array([n_draft, int(mended), luck, outside], np.int64),
        now=np.zeros(3, np.int64),
        context=new_counts(capacity),
        dynamic=new_counts(0) if dynamic is None else dynamic,
        static=new_counts(0) if static is None else static,
        steps=np.zeros(2 * MOST, np.int64),
    )


@kernel
def begin_cache(state: Cache) -> None:
    """Begin a request. As built the text of earlier ones stays learnt; mended, it goes."""
    if state.numbers[MENDED] == 1:
        clear(state.context)
        state.now[LEARNT_TO] = 0


@kernel
def draft_cache(state: Cache, tokens: Longs, length: int, truth: int, out: Longs) -> int:
    """Draft as `common_speculative_impl_ngram_cache::draft_one`.

    Args:
        state: its state.
        tokens, length, out: as `lookup.draft_simple`.
        truth: how many tokens of the text are known, for ties that go by luck.

    As built, only the tokens that are new since the last draft are handed to the updater, so a single one is
    not learnt; and none are while the text is shorter than what an earlier request had.
    """
    learnt, end = state.now[LEARNT_TO], length + 1
    if state.numbers[MENDED] == 1:
        learn_last(state.context, tokens, 0, learnt, end)
        state.now[LEARNT_TO] = end
    elif learnt < end:
        learn(state.context, tokens, learnt, end)
        state.now[LEARNT_TO] = end
    return draft_tokens(state, tokens, end, truth, out)


@kernel
def draft_tokens(state: Cache, tokens: Longs, end: int, truth: int, out: Longs) -> int:
    """Draft from the tables alone, as `common_ngram_cache_draft`; the last token is in `tokens[:end]`."""
    count = 0
    if end < STATIC_SIZE:
        return 0
    right = True  # all drafted so far is what comes
    while count < state.numbers[N_DRAFT]:
        expected = tokens[end + count] if right and end + count < truth else NONE
        token = _next_token(state, tokens, end, out, count, expected)
        if token == NONE:
            break
        right = right and token == expected
        out[count] = token
        count += 1
    return count


@kernel
def _back(tokens: Longs, end: int, out: Longs, count: int, i: int) -> int:
    """The i-th token from the end of the text with the draft, from 1."""
    return int(out[count - i]) if i <= count else int(tokens[end + count - i])


@kernel
def _next_token(state: Cache, tokens: Longs, end: int, out: Longs, count: int, expected: int) -> int:
    static = _static_node(state, tokens, end, out, count)
    token = _of_table(state, state.context, tokens, end, out, count, static, LAX, expected)
    if token == NONE:
        token = _of_table(state, state.dynamic, tokens, end, out, count, static, STRICT, expected)
    if token == NONE and static != NONE:
        token = _of_static(state, static, expected)
    return token


@kernel
def _of_table(
    state: Cache,
    counts: Counts,
    tokens: Longs,
    end: int,
    out: Longs,
    count: int,
    static: int,
    table: int,
    expected: int,
) -> int:
    """The token of the longest n-gram that is sure enough; -1 for none."""
    if counts.size[N_PAIRS] == 0:
        return NONE
    slots, nodes, steps, mended = counts.node_slots, counts.nodes, state.steps, state.numbers[MENDED]
    node, longest = 0, 0
    for size in range(1, MOST + 1):
        if size <= end + count:
            token = _back(tokens, end, out, count, size)
        else:
            token = _before_text(state, end, count, size)
        if token == NONE:
            break
        key = (node << SHIFT) + token
        slot = slot_of(slots, key)
        if slots[slot, KEY] != key:
            break
        node = slots[slot, AT]
        steps[size - 1] = node
        longest = size
    for size in range(longest, 0, -1):
        node = steps[size - 1]
        if not _may_draft(nodes, node, _SAMPLES[table, size - 1], _PERCENT[table, size - 1], mended):
            continue
        if static == NONE and nodes[node, EQUAL] == 1 and nodes[node, TOTAL] < _INT32 // 100:
            return int(counts.pairs[nodes[node, BEST_PAIR], TOKEN])
        token = _of_node(state, counts, node, static, table, size, expected)
        if token != NONE:
            return token
    return NONE


@kernel
def _before_text(state: Cache, end: int, count: int, size: int) -> int:
    """What C++ reads for a token before the text, counted; -1 where nothing is known of it."""
    state.now[PAST_BEGIN] += 1
    return int(state.numbers[OUTSIDE]) if size == end + count + 1 and end == STATIC_SIZE else NONE


@kernel
def _static_node(state: Cache, tokens: Longs, end: int, out: Longs, count: int) -> int:
    """The static table's key of the last two tokens; -1 where it has none."""
    if state.static.size[N_PAIRS] == 0:
        return NONE
    node = child(state.static, 0, _back(tokens, end, out, count, 1))
    if node != NONE:
        node = child(state.static, node, _back(tokens, end, out, count, 2))
    return NONE if node == NONE or state.static.nodes[node, FIRST] == NONE else node


@kernel
def wrapped(mended: int, value: int) -> int:
    """What an int32 holds of a product; mended, all of it."""
    if mended == 1:
        return value
    return ((value + _INT32) & (2 * _INT32 - 1)) - _INT32


@kernel
def _enough(mended: int, top: int, total: int, samples: int, percent: int) -> bool:
    return total >= samples and wrapped(mended, 100 * top) >= wrapped(mended, percent * total)


@kernel
def _may_draft(nodes: Longs, node: int, samples: int, percent: int, mended: int) -> bool:
    """Whether a key was seen often enough, and one token of it, as far as no product passes an int32."""
    total = nodes[node, TOTAL]
    if nodes[node, SIZE] == 0 or total < samples:
        return False
    return total >= _INT32 // 100 or _enough(mended, nodes[node, TOP], total, samples, percent)


@kernel
def _of_node(
    state: Cache, counts: Counts, node: int, static: int, table: int, size: int, expected: int
) -> int:
    """The token that a key drafts, its counts weighted by the static table; -1 for none."""
    nodes, mended = counts.nodes, state.numbers[MENDED]
    samples, percent = _SAMPLES[table, size - 1], _PERCENT[table, size - 1]
    best, equal, chosen = nodes[node, TOP], nodes[node, EQUAL], nodes[node, BEST_PAIR]
    if static != NONE or best >= _INT32:
        best, equal, chosen = _weighted(state, counts, nodes[node, FIRST], static)
    total = wrapped(mended, nodes[node, TOTAL])
    if chosen == NONE:
        return NONE
    if equal > 1:
        chosen = _of_equals(state, counts, node, static, best, equal, percent, total, samples, expected)
    if not _enough(mended, counts.pairs[chosen, COUNT], total, samples, percent):
        return NONE
    return int(counts.pairs[chosen, TOKEN])


@kernel
def _weighted(state: Cache, counts: Counts, pair: int, static: int) -> tuple[int, int, int]:
    """The highest product from a pair on, how many have it, and the first of them; 0 is not high enough."""
    best, equal, chosen = 0, 0, NONE
    while pair != NONE:
        product = _product(state, counts, pair, static)
        if product > best:
            best, equal, chosen = product, 1, pair
        elif product == best and chosen != NONE:
            equal += 1
        pair = counts.pairs[pair, NEXT]
    return best, equal, chosen


@kernel
def _product(state: Cache, counts: Counts, pair: int, static: int) -> int:
    weight, mended = 1, state.numbers[MENDED]
    if static != NONE:
        known = find_pair(state.static, static, counts.pairs[pair, TOKEN])
        if known != NONE:
            weight = wrapped(mended, 100 * state.static.pairs[known, COUNT])
    return wrapped(mended, counts.pairs[pair, COUNT] * weight)


@kernel
def _of_equals(
    state: Cache,
    counts: Counts,
    node: int,
    static: int,
    best: int,
    equal: int,
    percent: int,
    total: int,
    samples: int,
    expected: int,
) -> int:
    """Which of the equally good pairs is drafted. A tie is counted where any of them would be drafted."""
    pairs, mended = _in_walk_order(counts, node), state.numbers[MENDED]
    by_walk, right, wrong = NONE, NONE, NONE
    for pair in pairs:
        if _product(state, counts, pair, static) != best:
            continue
        if by_walk == NONE:
            by_walk = int(pair)
        if _enough(mended, counts.pairs[pair, COUNT], total, samples, percent):
            if counts.pairs[pair, TOKEN] == expected:
                right = int(pair)
            elif wrong == NONE:
                wrong = int(pair)
    if right != NONE or wrong != NONE:
        state.now[TIES] += 1
    if state.numbers[LUCK] == BEST and right != NONE:
        return right
    if state.numbers[LUCK] == WORST and wrong != NONE:
        return wrong
    return by_walk


@kernel
def _in_walk_order(counts: Counts, node: int) -> Longs:
    """The pairs of a node as C++ walks them."""
    n = counts.nodes[node, SIZE]
    pairs = np.zeros(n, np.int64)
    tokens = np.zeros(n, np.int64)
    order = np.zeros(n, np.int64)
    pair = counts.nodes[node, FIRST]
    for i in range(n):
        pairs[i] = pair
        tokens[i] = counts.pairs[pair, TOKEN]
        pair = counts.pairs[pair, NEXT]
    walk_order(tokens, n, order)
    return pairs[order]


@kernel
def _of_static(state: Cache, node: int, expected: int) -> int:
    """The token that the static table drafts by itself."""
    row, mended = state.static.nodes[node], state.numbers[MENDED]
    samples, percent = _SAMPLES[LAX, STATIC_SIZE - 1], _PERCENT[LAX, STATIC_SIZE - 1]
    total = wrapped(mended, row[TOTAL])
    if not _enough(mended, row[TOP], total, samples, percent):
        return NONE
    chosen, equal = row[BEST_PAIR], row[EQUAL]
    if equal > 1:
        chosen = _of_equals(
            state, state.static, node, NONE, row[TOP], equal, percent, total, samples, expected
        )
    return int(state.static.pairs[chosen, TOKEN])
