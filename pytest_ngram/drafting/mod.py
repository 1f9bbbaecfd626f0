"""`ngram-mod`: a pool of next tokens by the hash of the n tokens before, which outlives requests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_ngram.drafting.compiled import Longs, kernel

# common/speculative.cpp, common/ngram-mod.cpp
POOL_BITS = 22
EMPTY = -1
# only the lowest 22 bits of the product are ever used
_FACTOR = 6364136223846793005 & ((1 << POOL_BITS) - 1)
_CHUNK = 32
_FULL = 0.25
_LOW = 0.25
_LOW_STREAK = 5

N_MATCH, N_MIN, N_MAX, MENDED = range(4)
LEARNT_TO, LAST_DRAFT, LOW_COUNT, USED, RESETS = range(5)


class Mod(NamedTuple):
    """The pool and what one slot knows of it.

    Args:
        numbers: int64 of shape (4,): n_match, n_min, n_max, mended.
        now: int64 of shape (5,): the first n-gram that is not learnt, the last draft's length before any cut,
            how many drafts in a row were accepted by less than a quarter, entries used, resets.
        pool: int32 of shape (2**22,), -1 for empty.
        window: int64 of shape (n_match + n_max,), scratch.
    """

    numbers: Longs
    now: Longs
    pool: npt.NDArray[np.int32]
    window: Longs


def new_mod(n_match: int, n_min: int, n_max: int, mended: bool, bits: int = POOL_BITS) -> Mod:
    """Return an empty pool."""
    return Mod(
        numbers=np.array([n_match, n_min, n_max, int(mended)], np.int64),
        now=np.zeros(5, np.int64),
        pool=np.full(1 << bits, EMPTY, np.int32),
        window=np.zeros(n_match + n_max, np.int64),
    )


@kernel
def _index(tokens: Longs, at: int, n: int, mask: int) -> int:
    code = 0
    for i in range(n):
        code = (code * _FACTOR + tokens[at + i]) & mask
    return code


@kernel
def _learn(state: Mod, tokens: Longs, begin: int, end: int) -> None:
    n = state.numbers[N_MATCH]
    mask = len(state.pool) - 1
    for at in range(begin, end):
        index = _index(tokens, at, n, mask)
        if state.pool[index] == EMPTY:
            state.now[USED] += 1
        state.pool[index] = tokens[at + n]


@kernel
def _reset(state: Mod) -> None:
    state.pool[:] = EMPTY
    state.now[USED] = 0
    state.now[RESETS] += 1


@kernel
def begin_mod(state: Mod, tokens: Longs, length: int) -> None:
    """Begin a request whose prompt is `tokens[:length]`: learn it; a pool that is a quarter full is emptied.

    As built, `begin` keeps the count of low acceptance, and a pool that is emptied forgets this prompt too.
    """
    now, n = state.now, state.numbers[N_MATCH]
    now[LEARNT_TO] = now[LAST_DRAFT] = 0
    mended = state.numbers[MENDED] == 1
    if mended:
        now[LOW_COUNT] = 0
    if length < n:
        return
    _learn(state, tokens, 0, length - n)
    now[LEARNT_TO] = length - n
    if now[USED] / len(state.pool) > _FULL:
        _reset(state)
        if mended:
            _learn(state, tokens, 0, length - n)


@kernel
def draft_mod(state: Mod, tokens: Longs, length: int, out: Longs) -> int:
    """Draft token by token out of the pool; arguments and result as `lookup.draft_simple`.

    As built, what was generated is learnt only when 32 tokens and more came, without the token sampled last.
    Mended, each step learns all that is known.
    """
    now, numbers = state.now, state.numbers
    n = numbers[N_MATCH]
    now[LAST_DRAFT] = 0
    if length < n:
        return 0
    mended = numbers[MENDED] == 1
    if mended:
        _learn(state, tokens, now[LEARNT_TO], length + 1 - n)
        now[LEARNT_TO] = length + 1 - n
    elif now[LEARNT_TO] + _CHUNK < length:
        _learn(state, tokens, now[LEARNT_TO], length - n)
        now[LEARNT_TO] = length - n
    window = state.window
    for i in range(n):
        window[i] = tokens[length - n + 1 + i]
    count = 0
    while count < numbers[N_MAX]:
        token = state.pool[_index(window, count, n, len(state.pool) - 1)]
        if token == EMPTY:
            break
        window[n + count] = token
        count += 1
    if count < min(numbers[N_MIN], numbers[N_MAX]):
        return 0
    for i in range(count):
        out[i] = window[n + i]
    now[LAST_DRAFT] = count
    return count


@kernel
def accept_mod(state: Mod, accepted: int, drafted: int) -> None:
    """Note how many tokens were accepted; five drafts in a row with less than a quarter empty the pool.

    As built, the share is of the draft before it was cut to what the request still needed; mended, of what
    was verified.
    """
    now = state.now
    whole = drafted if state.numbers[MENDED] == 1 else now[LAST_DRAFT]
    if now[LAST_DRAFT] <= 0:
        return
    if accepted / whole >= _LOW:
        now[LOW_COUNT] = 0
        return
    now[LOW_COUNT] += 1
    if now[LOW_COUNT] >= _LOW_STREAK:
        _reset(state)
        now[LOW_COUNT] = 0
        now[LEARNT_TO] = 0
