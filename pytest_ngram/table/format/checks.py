"""The checks of a table file, harder than those of llama.cpp's loader. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_ngram.errors import TableError
from pytest_ngram.table import COUNT_LIMIT, ID_LIMIT, INT32_MAX, KEY_SUM_LIMIT, Ids, Longs

HEAD_WORDS = 5
HEAD_BYTES = 4 * HEAD_WORDS
KEY_BYTES = 16
PAIR_BYTES = 8

DeadWeight = Literal["error", "count"]

ABORTS = "aborts the whole server (SIGABRT)"
REBUILD = "build the table again from its corpus"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table that passed `verify` holds.

    Args:
        keys, pairs, size_bytes: of the whole file; size_bytes = 20 · keys + 8 · pairs.
        max_count: the largest count.
        max_token: the largest id, in keys and pairs.
        dead_keys, dead_bytes: records that are no 2-grams. llama.cpp loads them and never looks them up.
        safe_repeats: how often a slot may learn one continuation before the product of that with `max_count`
            overflows llama.cpp's int32 (`table.counts.count_cap_for` says why).
    """

    keys: int
    pairs: int
    size_bytes: int
    max_count: int
    max_token: int
    dead_keys: int
    dead_bytes: int
    safe_repeats: int


@dataclass(frozen=True, eq=False, slots=True)
class Parsed:
    """Where things are. Words are int32; `heads` and `pair_at` are places in `words`.

    Shapes: `heads`, `n_pairs` (keys,); `keys` (keys, 4); `pair_key` (the record of a pair), `pair_at`,
    `token`, `count` (pairs,).
    """

    words: Ids
    heads: Longs
    n_pairs: Longs
    keys: Ids
    pair_key: Longs
    pair_at: Longs

    @property
    def token(self) -> Ids:
        """The third token of each pair."""
        return self.words[self.pair_at]

    @property
    def count(self) -> Ids:
        """The count of each pair."""
        return self.words[self.pair_at + 1]

    @property
    def is_bigram(self) -> npt.NDArray[np.bool_]:
        """Of each record, whether its key is two tokens."""
        return (self.keys[:, 1] >= 0) & (self.keys[:, 2] < 0)


def verify(data: bytes, n_vocab: int | None, *, dead_weight: DeadWeight = "error") -> TableFacts:
    """Check a table harder than llama.cpp's loader does.

    Args:
        data: the whole file.
        n_vocab: ids must be below it; None where the vocabulary is unknown: then below 2²¹, which no
            vocabulary in use reaches.
        dead_weight: what to do about records that are no 2-grams: refuse, or count them in the facts.

    Raises:
        TableError: with the record (from 1), the byte (from 0) and what llama.cpp would do. The first fault
            of the first failing check is named; the checks go by kind: structure, keys, counts, ids,
            duplicates. Of a file that would pass with the bytes of each number turned round, that is said.
    """
    parsed = checked(data, n_vocab, dead_weight)
    dead = ~parsed.is_bigram
    max_count = int(parsed.count.max())
    return TableFacts(
        keys=len(parsed.heads),
        pairs=len(parsed.pair_key),
        size_bytes=len(data),
        max_count=max_count,
        max_token=max(int(parsed.keys.max()), int(parsed.token.max())),
        dead_keys=int(np.count_nonzero(dead)),
        dead_bytes=int(np.sum(HEAD_BYTES + PAIR_BYTES * parsed.n_pairs[dead])),
        safe_repeats=INT32_MAX // (100 * max_count),
    )


def checked(data: bytes, n_vocab: int | None, dead_weight: DeadWeight) -> Parsed:
    """Find the records of a table and check them all. Arguments and errors are those of `verify`."""
    if not data:
        raise TableError(
            "a table file is empty",
            checked=["0 bytes", "llama.cpp's loader: loads silently, and nothing is ever drafted from it"],
            fix=REBUILD,
        )
    words = np.frombuffer(data, np.dtype("<i4"), count=len(data) // 4).astype(np.int32, copy=False)
    try:
        return _checked(words, len(data), n_vocab, dead_weight)
    except TableError as error:
        _refuse_byte_order(words, len(data), error)
        raise


def _checked(words: Ids, size_bytes: int, n_vocab: int | None, dead_weight: DeadWeight) -> Parsed:
    parsed = _parse(words, _walk(words, size_bytes))
    _check_keys(parsed, dead_weight)
    _check_counts(parsed)
    _check_ids(parsed, n_vocab)
    _check_duplicates(parsed)
    return parsed


def _refuse_byte_order(words: Ids, size_bytes: int, found: TableError) -> None:
    """Say so if a file with a fault is a table of a machine of the other byte order."""
    try:
        _checked(words.byteswap(), size_bytes, None, "count")
    except TableError:
        return
    raise TableError(
        "the table is in the wrong byte order: its numbers are big-endian",
        checked=[f"read as it is, {found.cause}", *found.checked],
        fix="build the table on a little-endian machine, where llama.cpp reads it as it writes it",
    ) from found


def _walk(words: Ids, size_bytes: int) -> Longs:
    """Find where each record begins: each tells only where the next one is, so this alone is a loop."""
    view = memoryview(words.data)  # gives plain ints; an array would make an object of its own for each
    heads: list[int] = []
    at, end = 0, len(view) - HEAD_WORDS
    while at <= end:
        n_pairs = view[at + 4]
        heads.append(at)
        if n_pairs <= 0:
            raise _fault(
                f"a record says that it has {n_pairs} pairs",
                len(heads),
                4 * (at + 4),
                loader=ABORTS,
                fix=REBUILD,
            )
        at += HEAD_WORDS + 2 * n_pairs
    _check_end(heads, 4 * at, size_bytes)
    return np.array(heads, np.int64)


def _check_end(heads: Sequence[int], at_byte: int, size_bytes: int) -> None:
    """Refuse a file that does not end where its last record does."""
    left = size_bytes - at_byte
    if left == 0:
        return
    fix = f"take the whole file again from where it was copied, or {REBUILD}"
    if left < 0:
        cause = (
            f"the last record is cut: it wants {size_bytes - left} bytes and the file ends at {size_bytes}"
        )
        raise _fault(cause, len(heads), 4 * heads[-1], loader=ABORTS, fix=fix)
    if left < KEY_BYTES:
        loader = "loads silently and ignores them"
        raise _fault(f"{left} bytes follow the last record", len(heads) + 1, at_byte, loader=loader, fix=fix)
    cause = f"the last record is cut inside its head: {left} of {HEAD_BYTES} bytes"
    raise _fault(cause, len(heads) + 1, at_byte, loader=ABORTS, fix=fix)


def _parse(words: Ids, heads: Longs) -> Parsed:
    n_pairs = words[heads + 4].astype(np.int64)
    first_pair = np.cumsum(n_pairs) - n_pairs
    pair_key = np.repeat(np.arange(len(heads)), n_pairs)
    nth_of_key = np.arange(len(pair_key)) - first_pair[pair_key]
    keys = words[heads[:, None] + np.arange(4)]
    return Parsed(words, heads, n_pairs, keys, pair_key, heads[pair_key] + HEAD_WORDS + 2 * nth_of_key)


def _check_keys(parsed: Parsed, dead_weight: DeadWeight) -> None:
    used = parsed.keys >= 0
    # Used slots come first, at least one, and the rest are exactly −1.
    wrong = ~used[:, 0] | (used[:, 1:] & ~used[:, :-1]).any(axis=1) | (parsed.keys < -1).any(axis=1)
    if wrong.any():
        at = int(np.argmax(wrong))
        cause = f"a key is {parsed.keys[at].tolist()}: token ids first, then -1 in the unused slots"
        loader = "loads silently, and the record is never found"
        raise _fault(cause, at + 1, 4 * int(parsed.heads[at]), loader=loader, fix=REBUILD)
    dead = ~parsed.is_bigram
    if dead_weight == "error" and dead.any():
        at = int(np.argmax(dead))
        cause = f"{np.count_nonzero(dead)} of {len(dead)} records are no 2-grams"
        loader = "loads them silently, never looks them up, and pays their memory"
        fix = "build the static table from 2-grams only; a file for -lcd is no file for -lcs"
        raise _fault(cause, at + 1, 4 * int(parsed.heads[at]), loader=loader, fix=fix)


def _check_counts(parsed: Parsed) -> None:
    count = parsed.count
    if (count <= 0).any():
        at = int(np.argmax(count <= 0))
        raise _pair_fault(parsed, at, f"a count is {count[at]}", word=1, loader=ABORTS, fix=REBUILD)
    fix = "build the table again with a count cap"
    wraps = "loads silently; its int32 products overflow and other tokens are drafted"
    if (count > COUNT_LIMIT).any():
        at = int(np.argmax(count > COUNT_LIMIT))
        cause = f"a count is {count[at]}, above {COUNT_LIMIT}"
        raise _pair_fault(parsed, at, cause, word=1, loader=wraps, fix=fix)
    first_pair = np.cumsum(parsed.n_pairs) - parsed.n_pairs
    total = np.add.reduceat(count.astype(np.int64), first_pair)
    if (total > KEY_SUM_LIMIT).any():
        at = int(np.argmax(total > KEY_SUM_LIMIT))
        cause = f"the counts of a key sum to {total[at]}, above {KEY_SUM_LIMIT}"
        raise _fault(cause, at + 1, 4 * int(parsed.heads[at]), loader=wraps, fix=fix)


def _check_ids(parsed: Parsed, n_vocab: int | None) -> None:
    limit = ID_LIMIT if n_vocab is None else n_vocab
    outside = f"is outside the vocabulary of {limit}"
    fix = "build the table with the tokenizer of the model that it is for"
    loader = "loads silently; this is another vocabulary's table"
    if n_vocab is None:
        outside = f"is no id: no vocabulary in use has {limit} tokens"
        fix = "check that the file is a table and was copied whole"
        loader = "loads silently; the key is never found, or the token is drafted"
    if (parsed.keys >= limit).any():
        at, slot = divmod(int(np.argmax(parsed.keys >= limit)), 4)
        cause = f"token {parsed.keys[at, slot]} of a key {outside}"
        raise _fault(cause, at + 1, 4 * (int(parsed.heads[at]) + slot), loader=loader, fix=fix)
    token = parsed.token
    wrong = (token < 0) | (token >= limit)
    if wrong.any():
        at = int(np.argmax(wrong))
        cause = f"token {token[at]} of a pair {outside}"
        raise _pair_fault(parsed, at, cause, word=0, loader=loader, fix=fix)


def _check_duplicates(parsed: Parsed) -> None:
    keys = parsed.keys
    order = np.lexsort(keys.T[::-1])
    again = order[1:][(keys[order[1:]] == keys[order[:-1]]).all(axis=1)]
    loader = "loads silently and keeps the first of them"
    if len(again):
        at = int(again.min())
        first = int(np.argmax((keys == keys[at]).all(axis=1)))
        cause = f"the key {keys[at].tolist()} is there twice, first in record {first + 1}"
        raise _fault(cause, at + 1, 4 * int(parsed.heads[at]), loader=loader, fix=REBUILD)
    # Ids are not negative by now, so record and token sort as one number.
    packed = parsed.pair_key << 32 | parsed.token.astype(np.int64)
    order = np.argsort(packed, kind="stable")
    again = order[1:][packed[order[1:]] == packed[order[:-1]]]
    if len(again):
        at = int(again.min())
        cause = f"a key has two counts for token {parsed.token[at]}"
        raise _pair_fault(parsed, at, cause, word=0, loader=loader, fix=REBUILD)


def _pair_fault(parsed: Parsed, pair: int, cause: str, *, word: int, loader: str, fix: str) -> TableError:
    record = int(parsed.pair_key[pair]) + 1
    return _fault(cause, record, 4 * (int(parsed.pair_at[pair]) + word), loader=loader, fix=fix)


def _fault(cause: str, record: int, byte: int, *, loader: str, fix: str) -> TableError:
    """An error about one place of the file. Records are counted from 1, bytes from 0."""
    return TableError(
        cause, checked=[f"record {record}, byte {byte}", f"llama.cpp's loader: {loader}"], fix=fix
    )
