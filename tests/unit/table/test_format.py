"""The table file: round trip, an oracle written with struct, and each kind of corrupt table."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import TableError
from pytest_ngram.table import COUNT_LIMIT, ID_LIMIT, INT32_MAX, Counts
from pytest_ngram.table.format import decode, encode, verify

Key = tuple[int, ...]
Table = dict[Key, dict[int, int]]

IDS = st.integers(0, ID_LIMIT - 1)
FOLLOWERS = st.dictionaries(IDS, st.integers(1, 10_000_000), min_size=1, max_size=4)
TABLES = st.dictionaries(st.tuples(IDS, IDS), FOLLOWERS, min_size=1, max_size=8)
SMALL = st.integers(0, 5)


def record(key: Key, followers: list[tuple[int, int]], n_pairs: int | None = None) -> bytes:
    """One record, byte by byte as the format is described; nothing is checked."""
    head = [*key, *[-1] * (4 - len(key)), len(followers) if n_pairs is None else n_pairs]
    return struct.pack(f"<{5 + 2 * len(followers)}i", *head, *(word for pair in followers for word in pair))


def write(table: Table) -> bytes:
    return b"".join(record(key, sorted(table[key].items())) for key in sorted(table))


def read(data: bytes | bytearray) -> Table:
    """As llama.cpp's loader reads: the first of two keys and of two tokens wins, a short tail is ignored."""
    table: Table = {}
    at = 0
    while at + 16 <= len(data):
        *tokens, n_pairs = struct.unpack_from("<5i", data, at)
        assert n_pairs > 0
        at += 20
        followers: dict[int, int] = {}
        for _ in range(n_pairs):
            token, count = struct.unpack_from("<2i", data, at)
            assert count > 0
            followers.setdefault(token, count)
            at += 8
        table.setdefault(tuple(t for t in tokens if t != -1), followers)
    return table


def to_counts(table: Table) -> Counts:
    rows = sorted((*key, t, n) for key, followers in table.items() for t, n in followers.items())
    columns = np.array(rows, np.int64).reshape(-1, 4)
    return Counts(*(columns[:, i].astype(np.int32) for i in range(3)), columns[:, 3])


@given(TABLES)
@settings(deadline=None)
def test_encode_equals_the_oracle(table: Table) -> None:
    """The bytes are those that struct writes from the description of the format."""
    assert encode(to_counts(table)) == write(table)


@given(TABLES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_decode_reads_any_order(table: Table, shuffler: random.Random) -> None:
    """Records and pairs in any order, as a hash map writes them, give the same sorted counts."""
    keys = list(table)
    shuffler.shuffle(keys)
    data = b"".join(record(key, list(table[key].items())) for key in keys)
    assert decode(data).equals(to_counts(table))
    assert read(encode(decode(data))) == table


@given(TABLES)
@settings(deadline=None)
def test_bytes_are_20_a_key_and_8_a_pair(table: Table) -> None:
    """The price of a table is known from its keys and pairs."""
    counts = to_counts(table)
    facts = verify(encode(counts), None)
    assert facts.size_bytes == 20 * counts.keys + 8 * counts.pairs == 20 * facts.keys + 8 * facts.pairs
    assert facts.max_count == counts.count.max()


@given(
    st.lists(st.tuples(st.tuples(SMALL, SMALL), st.lists(st.tuples(SMALL, SMALL), max_size=3)), max_size=3),
    st.none() | st.tuples(st.integers(0, 30), st.integers(-2, 4)),
    st.sampled_from([b"", b"", b"", b"\0", b"\0" * 8]),
)
@settings(deadline=None, max_examples=300)
def test_what_passes_is_what_the_loader_reads(
    records: list[tuple[Key, list[tuple[int, int]]]], change: tuple[int, int] | None, tail: bytes
) -> None:
    """What verify passes of nearly right bytes, the loader's rules read alike; the rest is a TableError."""
    data = bytearray(b"".join(record(*r) for r in records) + tail)
    if change is not None and 4 * change[0] + 4 <= len(data):
        struct.pack_into("<i", data, 4 * change[0], change[1])
    try:
        facts = verify(bytes(data), 300)
    except TableError:
        return
    assert to_counts(read(data)).equals(decode(bytes(data)))
    assert (facts.keys, facts.size_bytes) == (len(read(data)), len(data))


GOOD = record((1, 2), [(3, 5), (4, 2)])  # 36 bytes
NEXT = record((1, 3), [(3, 1)])  # 28 bytes, record 2 at byte 36

ABORTS = "aborts the whole server (SIGABRT)"
SILENT = "loads silently"

CORRUPT = {
    "empty file": (b"", "is empty", "0 bytes", SILENT),
    "one byte more": (GOOD + b"\0", "1 bytes follow the last record", "record 2, byte 36", SILENT),
    "15 bytes more": (GOOD + b"\0" * 15, "15 bytes follow the last record", "record 2, byte 36", SILENT),
    "a key and no number of pairs": (GOOD + NEXT[:16], "cut inside its head", "record 2, byte 36", ABORTS),
    "19 bytes more": (GOOD + NEXT[:19], "cut inside its head", "record 2, byte 36", ABORTS),
    "cut after the head": (
        GOOD + NEXT[:20],
        "wants 64 bytes and the file ends at 56",
        "record 2, byte 36",
        ABORTS,
    ),
    "cut inside a pair": (
        GOOD + NEXT[:27],
        "wants 64 bytes and the file ends at 63",
        "record 2, byte 36",
        ABORTS,
    ),
    "only a tail": (b"\1\0\0", "3 bytes follow", "record 1, byte 0", SILENT),
    "no pairs": (GOOD + record((1, 3), []), "it has 0 pairs", "record 2, byte 52", ABORTS),
    "fewer than none": (GOOD + record((1, 3), [], -7), "it has -7 pairs", "record 2, byte 52", ABORTS),
    "far too many": (GOOD + record((1, 3), [(1, 1)], INT32_MAX), "is cut", "record 2, byte 36", ABORTS),
    "count 0": (GOOD + record((1, 3), [(9, 1), (3, 0)]), "a count is 0", "record 2, byte 68", ABORTS),
    "count below 0": (record((1, 3), [(3, -1)]), "a count is -1", "record 1, byte 24", ABORTS),
    "count too high": (
        GOOD + record((1, 3), [(3, COUNT_LIMIT + 1)]),
        "a count is 21474837, above 21474836",
        "record 2, byte 60",
        SILENT,
    ),
    "sum too high": (
        GOOD + record((1, 3), [(t, COUNT_LIMIT) for t in range(3)]),
        "sum to 64424508, above 42949672",
        "record 2, byte 36",
        SILENT,
    ),
    "key twice": (
        GOOD + NEXT + record((1, 2), [(9, 1)]),
        "the key [1, 2, -1, -1] is there twice, first in record 1",
        "record 3, byte 64",
        SILENT,
    ),
    "token twice": (
        GOOD + record((1, 3), [(7, 1), (8, 1), (7, 2)]),
        "two counts for token 7",
        "record 2, byte 72",
        SILENT,
    ),
    "key outside the vocabulary": (
        GOOD + record((1, 100), [(3, 1)]),
        "token 100 of a key is outside the vocabulary of 100",
        "record 2, byte 40",
        SILENT,
    ),
    "pair outside the vocabulary": (
        GOOD + record((1, 3), [(3, 1), (100, 1)]),
        "token 100 of a pair is outside the vocabulary of 100",
        "record 2, byte 64",
        SILENT,
    ),
    "pair of a negative token": (
        record((1, 3), [(-1, 1)]),
        "token -1 of a pair",
        "record 1, byte 20",
        SILENT,
    ),
    "key of nothing": (record((), [(3, 1)]), "a key is [-1, -1, -1, -1]", "record 1, byte 0", SILENT),
    "key with a gap": (record((1, -1, 2), [(3, 1)]), "a key is [1, -1, 2, -1]", "record 1, byte 0", SILENT),
    "key below -1": (record((1, 2, -2), [(3, 1)]), "a key is [1, 2, -2, -1]", "record 1, byte 0", SILENT),
    "a 1-gram": (GOOD + record((1,), [(3, 1)]), "1 of 2 records are no 2-grams", "record 2, byte 36", "pays"),
    "a 3-gram": (GOOD + record((1, 2, 3), [(3, 1)]), "1 of 2 records are no", "record 2, byte 36", "pays"),
    "a 4-gram": (record((1, 2, 3, 4), [(3, 1)]) + GOOD, "1 of 2 records are no", "record 1, byte 0", "pays"),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_table_is_named_to_the_byte(name: str) -> None:
    """Each fault names its record, its byte, what the loader would do with it, and a way out."""
    data, cause, place, loader = CORRUPT[name]
    with pytest.raises(TableError) as caught:
        verify(data, 100)
    assert cause in caught.value.cause
    assert caught.value.checked[0] == place
    assert loader in caught.value.checked[1]
    assert caught.value.fix


@pytest.mark.parametrize("name", [n for n in CORRUPT if "vocabulary" not in n])
def test_decode_refuses_what_verify_refuses(name: str) -> None:
    """A corrupt table never becomes counts."""
    with pytest.raises(TableError):
        decode(CORRUPT[name][0])


def test_dead_weight_can_be_counted_instead() -> None:
    """Records that are no 2-grams are told apart, priced, and left out of the counts."""
    data = GOOD + record((1,), [(3, 1)]) + record((1, 2, 3), [(3, 1), (4, 1)])
    facts = verify(data, 100, dead_weight="count")
    assert (facts.keys, facts.dead_keys, facts.dead_bytes) == (3, 2, 28 + 36)
    assert decode(data, dead_weight="count").equals(decode(GOOD))


def test_safe_repeats_is_the_last_that_fits() -> None:
    """The facts say how far the products are from an overflow of int32."""
    facts = verify(record((1, 2), [(3, 81)]), None)
    assert 100 * 81 * facts.safe_repeats <= INT32_MAX < 100 * 81 * (facts.safe_repeats + 1)


@pytest.mark.parametrize("count", [0, -1, COUNT_LIMIT + 1])
def test_encode_writes_no_count_that_verify_refuses(count: int) -> None:
    """A count that would abort or mislead llama.cpp is refused before it is in a file."""
    with pytest.raises(TableError, match="cannot be written"):
        encode(to_counts({(1, 2): {3: count}}))


def test_no_counts_are_no_bytes() -> None:
    """Counts of nothing encode to nothing, which verify then refuses as an empty table."""
    nothing = np.zeros(0, np.int32)
    assert encode(Counts(nothing, nothing, nothing, np.zeros(0, np.int64))) == b""
