"""`ngram-map-k` and `ngram-map-k4v`: keys of n tokens, each with what was accepted after it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.lookup import (
    Chains,
    add_places,
    clear_chains,
    latest,
    new_chains,
    next_equal,
    same,
)

# common/ngram-map.h
MAP_BITS = 18
VALUES = 4
_MOST = 16380
# the multiplier of common_ngram_map_hash; of the product only the lowest 18 bits are ever used
_FACTOR = 2654435761 & ((1 << MAP_BITS) - 1)

# `numbers`
SIZE_N, SIZE_M, MIN_HITS, KEY_ONLY, MENDED = range(5)
# `now`
LAST_BEGIN, LAST_CHECK, MAP_LAST, CREATED, LAST_KEY, LAST_VALUE, N_KEYS, PAST_END = range(8)
# columns of `keys`; then for each of 4 values: its place, how often it was seen, how many of it were accepted
PLACE, SEEN_TO, HITS, FIRST_VALUE = range(4)
VALUE_PLACE, VALUE_SEEN, VALUE_ACCEPTED = range(3)
_COLUMNS = FIRST_VALUE + 3 * VALUES


class Map(NamedTuple):
    """The state of one slot's map.

    Args:
        numbers: int64 of shape (5,): size_n, size_m, min_hits, key_only, mended.
        now: int64 of shape (8,): lengths at the last begin and check, the map's last place, the last draft
            (made or not, its key, its value), how many keys there are, how often a read went past the text's
            end.
        map: int64 of shape (2**18,): the place of an n-gram by its hash, 0 for none.
        keys: int64 of shape (capacity, 15).
        chains: for finding all places of a key.
        places: int64 of shape (capacity,), scratch.
    """

    numbers: Longs
    now: Longs
    map: Longs
    keys: Longs
    chains: Chains
    places: Longs


def new_map(size_n: int, size_m: int, min_hits: int, key_only: bool, mended: bool, capacity: int) -> Map:
    """Return an empty map for texts of up to `capacity` tokens."""
    return Map(
        numbers=np.array([size_n, size_m, min_hits, int(key_only), int(mended)], np.int64),
        now=np.zeros(8, np.int64),
        map=np.zeros(1 << MAP_BITS if capacity else 1, np.int64),
        keys=np.zeros((capacity, _COLUMNS), np.int64),
        chains=new_chains(size_n, capacity),
        places=np.zeros(capacity, np.int64),
    )


@kernel
def begin_map(state: Map, length: int) -> None:
    """Begin a request whose prompt has `length` tokens, as `common_ngram_map_begin`.

    As built, what is kept is judged by lengths alone: keys and places of another prompt stay where the new
    one is not shorter than what was last seen. Mended, every request begins with an empty map.
    """
    now = state.now
    clear_chains(state.chains)
    if state.numbers[MENDED] == 1:
        now[:] = 0
        return
    clean_from = now[LAST_BEGIN]
    if clean_from > length:
        clean_from = max(length - state.numbers[SIZE_N] - state.numbers[SIZE_M], 0)
    if length < now[LAST_CHECK]:
        for code in range(len(state.map)):
            if state.map[code] != 0 and state.map[code] >= clean_from:
                state.map[code] = 0
        now[MAP_LAST] = max(clean_from - 1, 0)
        _clean_keys(state, clean_from)
    now[LAST_CHECK] = now[LAST_BEGIN] = length


@kernel
def _clean_keys(state: Map, clean_from: int) -> None:
    kept = 0
    for key in range(state.now[N_KEYS]):
        row = state.keys[key]
        if row[PLACE] >= clean_from:
            continue
        if state.numbers[KEY_ONLY] == 0:
            _clean_values(row, clean_from)
            if row[FIRST_VALUE + VALUE_PLACE] == 0:
                continue
        state.keys[kept] = row
        kept += 1
    state.now[N_KEYS] = kept


@kernel
def _clean_values(row: Longs, clean_from: int) -> None:
    for value in range(VALUES - 1, -1, -1):
        at = FIRST_VALUE + 3 * value
        if row[at + VALUE_PLACE] == 0 or row[at + VALUE_PLACE] < clean_from:
            continue
        for i in range(at, _COLUMNS - 3):
            row[i] = row[i + 3]
        row[_COLUMNS - 3 + VALUE_PLACE] = 0
        row[_COLUMNS - 3 + VALUE_SEEN] = 0


@kernel
def _code(tokens: Longs, at: int, n: int) -> int:
    code = 0
    for i in range(n):
        code = (code * _FACTOR + tokens[at + i]) & ((1 << MAP_BITS) - 1)
    return code


@kernel
def draft_map(state: Map, tokens: Longs, length: int, out: Longs) -> int:
    """Draft as `common_ngram_map_draft`; arguments and result as `lookup.draft_simple`."""
    now = state.now
    n, m = state.numbers[SIZE_N], state.numbers[SIZE_M]
    now[CREATED] = now[LAST_KEY] = now[LAST_VALUE] = 0
    if state.numbers[MENDED] == 1:
        return _draft_mended(state, tokens, length, out)
    if length < 2 * n + m:
        return 0
    now[LAST_CHECK] = length
    of = length - n + 1
    match = _find(state, tokens, of, length)
    _fill_map(state, tokens, length)
    if match == 0:
        return 0
    key = _key_of(state, tokens, of, match, length)
    row = state.keys[key]
    row[HITS] = min(row[HITS] + 1, _MOST)
    value = 0
    if state.numbers[KEY_ONLY] == 0:
        if row[HITS] < state.numbers[MIN_HITS]:
            return 0
        _count_values(state, tokens, row, of, match, length)
        value = _winner(row)
        if value < 0:
            return 0
    count = min(m, row[FIRST_VALUE + 3 * value + VALUE_ACCEPTED])
    for i in range(count):
        out[i] = tokens[match + n + i]
    now[CREATED], now[LAST_KEY], now[LAST_VALUE] = 1, key, value
    return int(max(count, 0))


@kernel
def _find(state: Map, tokens: Longs, of: int, length: int) -> int:
    """The place of an earlier copy of the n-gram at `of`: what the map has, else the latest not in it yet."""
    n, m, last = state.numbers[SIZE_N], state.numbers[SIZE_M], state.now[MAP_LAST]
    began = state.now[LAST_BEGIN]
    place = state.map[_code(tokens, of, n)]
    if place != 0 and place < length - n - m - 1 and same(tokens, place, of, n):
        return int(place)
    if began > n + m + 1:
        for place in range(began - n - m - 1, last, -1):
            if same(tokens, place, of, n):
                return int(place)
    for place in range(length - n - m - 1, max(began, last), -1):
        if same(tokens, place, of, n):
            return int(place)
    return 0


@kernel
def _fill_map(state: Map, tokens: Longs, length: int) -> None:
    """Put the n-grams since the last draft into the map; the first that comes to a hash stays."""
    n, m, last = state.numbers[SIZE_N], state.numbers[SIZE_M], state.now[MAP_LAST]
    began = state.now[LAST_BEGIN]
    if began > n + m + 1:
        for place in range(began - n - m - 1, last, -1):
            code = _code(tokens, place, n)
            if state.map[code] == 0:
                state.map[code] = place
    for place in range(length - n - m - 1, max(began, last), -1):
        code = _code(tokens, place, n)
        if state.map[code] == 0:
            state.map[code] = place
    state.now[MAP_LAST] = max(length - n - m - 1, last)


@kernel
def _key_of(state: Map, tokens: Longs, of: int, match: int, length: int) -> int:
    """The number of the key with the n-gram at `of`; a new one where there is none."""
    n = state.numbers[SIZE_N]
    for key in range(state.now[N_KEYS]):
        if _same_within(state, tokens, state.keys[key, PLACE], of, n, length):
            return key
    key = state.now[N_KEYS]
    row = state.keys[key]
    row[:] = 0
    row[PLACE] = match
    for value in range(VALUES):
        row[FIRST_VALUE + 3 * value + VALUE_ACCEPTED] = state.numbers[SIZE_M]
    state.now[N_KEYS] = key + 1
    return int(key)


@kernel
def _same_within(state: Map, tokens: Longs, old: int, of: int, n: int, length: int) -> bool:
    """Compare n tokens; what lies past the text, where C++ reads whatever memory holds, is unequal and
    counted.

    `tokens[length]` is of the key itself, never of the text that C++ searches.
    """
    for i in range(n):
        if old + i >= length:
            state.now[PAST_END] += 1
            return False
        if tokens[old + i] != tokens[of + i]:
            return False
    return True


@kernel
def _count_values(state: Map, tokens: Longs, row: Longs, of: int, match: int, length: int) -> None:
    """Count what followed the key at each of its places from the last count to the match, both included."""
    n, m = state.numbers[SIZE_N], state.numbers[SIZE_M]
    add_places(state.chains, tokens, length - n)
    found = 0
    place = latest(state.chains, tokens, of)
    while place >= 0 and place >= row[SEEN_TO]:
        if place <= match:
            state.places[found] = place
            found += 1
        place = next_equal(state.chains, tokens, of, state.chains.before[place])
    for i in range(found - 1, -1, -1):
        at = state.places[i] + n
        for value in range(VALUES):
            cell = FIRST_VALUE + 3 * value
            if row[cell + VALUE_PLACE] == 0:
                row[cell + VALUE_PLACE] = at
                row[cell + VALUE_SEEN] = 1
                row[cell + VALUE_ACCEPTED] = m
                break
            if _same_within(state, tokens, row[cell + VALUE_PLACE], at, m, length):
                row[cell + VALUE_SEEN] = min(row[cell + VALUE_SEEN] + 1, _MOST)
                break
    row[SEEN_TO] = match


@kernel
def _winner(row: Longs) -> int:
    """The value seen most, the first of equals; -1 unless seen twice as often as the others together."""
    best, most, total = 0, 0, 0
    for value in range(VALUES):
        seen = row[FIRST_VALUE + 3 * value + VALUE_SEEN]
        total += seen
        if seen > most:
            best, most = value, seen
    others = total - most
    return -1 if others > 0 and most < 2 * others else best


@kernel
def accept_map(state: Map, accepted: int) -> None:
    """Note how many tokens of the last draft were accepted: the next of this key will be no longer."""
    if state.numbers[MENDED] == 0 and state.now[CREATED] == 1:
        state.keys[state.now[LAST_KEY], FIRST_VALUE + 3 * state.now[LAST_VALUE] + VALUE_ACCEPTED] = accepted


@kernel
def _draft_mended(state: Map, tokens: Longs, length: int, out: Longs) -> int:
    """Draft as documented: from the latest place of the key, or after the m-gram that is seen most.

    Each place counts once, `min_hits` holds for both types, and the draft is that of the value that won.
    """
    n, m = state.numbers[SIZE_N], state.numbers[SIZE_M]
    if length < n:
        return 0
    of = length - n + 1
    add_places(state.chains, tokens, length - n)
    found = 0
    place = latest(state.chains, tokens, of)
    while place >= 0:
        state.places[found] = place
        found += 1
        place = next_equal(state.chains, tokens, of, state.chains.before[place])
    if found == 0 or found < state.numbers[MIN_HITS]:
        return 0
    start = state.places[0] + n
    if state.numbers[KEY_ONLY] == 0:
        row = np.zeros(_COLUMNS, np.int64)
        for i in range(found - 1, -1, -1):
            _count_mended(row, tokens, state.places[i] + n, m, length + 1)
        value = _winner(row)
        if value < 0:
            return 0
        start = row[FIRST_VALUE + 3 * value + VALUE_PLACE]
    count = min(m, length + 1 - start)
    for i in range(count):
        out[i] = tokens[start + i]
    return int(count)


@kernel
def _count_mended(row: Longs, tokens: Longs, at: int, m: int, end: int) -> None:
    """Count one value; a value at the text's end, shorter than m, is equal to one that begins with it."""
    for value in range(VALUES):
        cell = FIRST_VALUE + 3 * value
        if row[cell + VALUE_PLACE] == 0:
            row[cell + VALUE_PLACE] = at
            row[cell + VALUE_SEEN] = 1
            return
        if same(tokens, row[cell + VALUE_PLACE], at, min(m, end - at)):
            row[cell + VALUE_SEEN] += 1
            return
