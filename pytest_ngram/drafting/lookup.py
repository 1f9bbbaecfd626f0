"""`ngram-simple` and the min-match prompt-lookup policy: both copy what followed an earlier equal n-gram.

Both search the request's own tokens and keep nothing between requests. The search goes through chains: all
places whose n-gram has one hash, the latest first, so that each step looks at few places however long the
text is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_ngram.drafting.compiled import Longs, kernel

HASH_BITS = 16
_MULTIPLIER = 40503


class Chains(NamedTuple):
    """Places by the hash of the n tokens that begin there.

    Args:
        head: int64 of shape (2**16,), the latest place of each hash, -1 for none.
        before: int64 of shape (capacity,), the place before this one with the same hash.
        size: int64 of shape (2,): how many places are in, and n.
    """

    head: Longs
    before: Longs
    size: Longs


def new_chains(n: int, capacity: int) -> Chains:
    """Return empty chains of n-grams for a text of up to `capacity` tokens."""
    return Chains(
        np.full(1 << HASH_BITS, -1, np.int64), np.full(capacity, -1, np.int64), np.array([0, n], np.int64)
    )


@kernel
def clear_chains(chains: Chains) -> None:
    """Forget all places."""
    chains.head[:] = -1
    chains.size[0] = 0


@kernel
def _hash(tokens: Longs, at: int, n: int) -> int:
    code = 0
    for i in range(n):
        code = (code * _MULTIPLIER + tokens[at + i] + 1) & ((1 << HASH_BITS) - 1)
    return code


@kernel
def add_places(chains: Chains, tokens: Longs, end: int) -> None:
    """Add the n-grams that begin before `end`; those that are in stay."""
    n = chains.size[1]
    for place in range(chains.size[0], end):
        code = _hash(tokens, place, n)
        chains.before[place] = chains.head[code]
        chains.head[code] = place
    chains.size[0] = max(chains.size[0], end)


@kernel
def same(tokens: Longs, left: int, right: int, n: int) -> bool:
    """Whether the n tokens at two places are equal."""
    for i in range(n):
        if tokens[left + i] != tokens[right + i]:
            return False
    return True


@kernel
def latest(chains: Chains, tokens: Longs, of: int) -> int:
    """Return the chain's latest place; one whose n-gram is that at `of` comes by `next_equal`."""
    place: int = chains.head[_hash(tokens, of, chains.size[1])]
    return next_equal(chains, tokens, of, place)


@kernel
def next_equal(chains: Chains, tokens: Longs, of: int, place: int) -> int:
    """Return the first place from `place` back along the chain that has the n-gram at `of`; -1 for none."""
    while place >= 0 and not same(tokens, place, of, chains.size[1]):
        place = chains.before[place]
    return place


class Simple(NamedTuple):
    """`ngram-simple`. `numbers`: size_n, size_m, min_hits, mended (0 or 1); int64 of shape (4,)."""

    numbers: Longs
    chains: Chains


def new_simple(size_n: int, size_m: int, min_hits: int, mended: bool, capacity: int) -> Simple:
    """Return it for texts of up to `capacity` tokens."""
    numbers = np.array([size_n, size_m, min_hits, int(mended)], np.int64)
    return Simple(numbers, new_chains(size_n, capacity))


@kernel
def draft_simple(simple: Simple, tokens: Longs, length: int, out: Longs) -> int:
    """Draft as `common_ngram_simple_draft` (common/ngram-map.cpp).

    Args:
        simple: its state.
        tokens: the text; `tokens[length]` is the token sampled last, `tokens[:length]` what stands before it.
        length: how many tokens stand before the last one.
        out: where the draft goes.

    Returns:
        How many tokens were drafted.

    As built, the match whose copy would be shorter than the key makes it decline although an earlier match
    had a longer one; a text of up to n + m + 1 tokens and a match at place 0 are passed over; `min_hits` is
    ignored. Mended, the latest match with `min_hits` of them counts, and all of its copy.
    """
    n, m = simple.numbers[0], simple.numbers[1]
    mended = simple.numbers[3] == 1
    if length < n or (not mended and length <= n + m + 1):
        return 0
    add_places(simple.chains, tokens, length - n + (1 if mended else 0))
    of = length - n + 1
    match = latest(simple.chains, tokens, of)
    if match < 0 or (match == 0 and not mended):
        return 0
    if mended and not _hit_often(simple.chains, tokens, of, match, simple.numbers[2]):
        return 0
    count = min(m, length + (1 if mended else 0) - (match + n))
    if not mended and count < n:
        return 0
    for i in range(count):
        out[i] = tokens[match + n + i]
    return int(count)


@kernel
def _hit_often(chains: Chains, tokens: Longs, of: int, match: int, min_hits: int) -> bool:
    hits = 0
    while match >= 0 and hits < min_hits:
        hits += 1
        match = next_equal(chains, tokens, of, chains.before[match])
    return hits >= min_hits


class Lookup(NamedTuple):
    """`prompt-lookup`. `numbers`: n, min_match, max_match; int64 of shape (3,)."""

    numbers: Longs
    chains: Chains


def new_lookup(n: int, min_match: int, max_match: int, capacity: int) -> Lookup:
    """Return it for texts of up to `capacity` tokens."""
    return Lookup(np.array([n, min_match, max_match], np.int64), new_chains(min_match, capacity))


@kernel
def draft_lookup(lookup: Lookup, tokens: Longs, length: int, out: Longs) -> int:
    """Draft what followed the longest earlier copy of the text's end, the latest of equally long ones.

    The end is the suffix with the last token in it. A match is capped at `max_match` tokens; below
    `min_match` it declines. The copy ends where the text ends. Arguments and result as `draft_simple`.
    """
    n, low, high = lookup.numbers[0], lookup.numbers[1], lookup.numbers[2]
    end = length + 1
    if end <= low:
        return 0
    of = end - low
    add_places(lookup.chains, tokens, of)
    best, match = 0, -1
    place = latest(lookup.chains, tokens, of)
    while place >= 0 and best < high:
        size = low
        while (
            size < high
            and size - low < place
            and tokens[place - 1 - (size - low)] == tokens[of - 1 - (size - low)]
        ):
            size += 1
        if size > best:
            best, match = size, place
        place = next_equal(lookup.chains, tokens, of, lookup.chains.before[place])
    if match < 0:
        return 0
    count = min(n, end - (match + low))
    for i in range(count):
        out[i] = tokens[match + low + i]
    return int(count)
