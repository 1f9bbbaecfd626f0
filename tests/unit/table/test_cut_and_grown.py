"""A table file that lost or gained bytes, at every byte; the other byte order; ids that are none."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import TableError
from pytest_ngram.table import ID_LIMIT, Counts
from pytest_ngram.table.format import decode, encode, verify

IDS = st.integers(0, ID_LIMIT - 1)
ROWS = st.dictionaries(st.tuples(IDS, IDS, IDS), st.integers(1, 10_000_000), min_size=1, max_size=6)


def table_of(rows: dict[tuple[int, int, int], int]) -> bytes:
    """A table's bytes, its pairs grouped by key as they sort."""
    columns = np.array([[*triple, n] for triple, n in sorted(rows.items())], np.int64)
    ids = (columns[:, i].astype(np.int32) for i in range(3))
    return encode(Counts(*ids, columns[:, 3]))


def record_ends(data: bytes) -> list[int]:
    """The bytes at which a record ends: a cut there leaves a smaller table."""
    at, ends = 0, []
    while at < len(data):
        at += 20 + 8 * struct.unpack_from("<i", data, at + 16)[0]
        ends.append(at)
    return ends


@given(ROWS)
@settings(deadline=None, max_examples=60)
def test_a_cut_at_any_byte_is_found_or_leaves_whole_records(rows: dict[tuple[int, int, int], int]) -> None:
    """Cut between two records it is the table of the first; anywhere else it is refused, with the byte."""
    data = table_of(rows)
    ends = record_ends(data)
    for size in range(len(data)):
        if size in ends:
            assert encode(decode(data[:size])) == data[:size]
            continue
        with pytest.raises(TableError) as caught:
            verify(data[:size], None)
        begin = max((end for end in ends if end <= size), default=0)
        if size:
            assert f"byte {begin}" in caught.value.checked[0]


@given(ROWS, st.binary(min_size=1, max_size=40))
@settings(deadline=None, max_examples=200)
def test_bytes_at_the_end_are_found_or_are_records(
    rows: dict[tuple[int, int, int], int], tail: bytes
) -> None:
    """What follows the last record is refused unless it is a record itself, with a key that was not there."""
    data = table_of(rows)
    try:
        facts = verify(data + tail, None)
    except TableError:
        return
    assert facts.keys > len(record_ends(data))
    assert record_ends(data + tail)[-1] == len(data) + len(tail)


@given(ROWS)
@settings(deadline=None, max_examples=60)
def test_every_number_of_zeros_at_the_end_is_refused(rows: dict[tuple[int, int, int], int]) -> None:
    """A sparse tail, as a broken copy leaves it, is never taken for a table, whatever its length."""
    data = table_of(rows)
    for n_bytes in range(1, 41):
        with pytest.raises(TableError):
            verify(data + b"\0" * n_bytes, None)


@given(ROWS)
@settings(deadline=None)
def test_a_table_of_the_other_byte_order_is_called_so(rows: dict[tuple[int, int, int], int]) -> None:
    """A big-endian table is refused by its name, with what it looked like when read as it is."""
    swapped = np.frombuffer(table_of(rows), "<i4").byteswap().tobytes()
    with pytest.raises(TableError, match="wrong byte order: its numbers are big-endian") as caught:
        verify(swapped, None)
    assert caught.value.checked[0].startswith("read as it is, ")
    assert "byte" in caught.value.checked[1]


@pytest.mark.parametrize("column", [0, 1, 2])
def test_an_id_that_no_vocabulary_has_is_refused(column: int) -> None:
    """Without a model ids are still of a known order of magnitude; the byte is named."""
    ids = [1, 2, 3]
    ids[column] = ID_LIMIT
    record = struct.pack("<7i", ids[0], ids[1], -1, -1, 1, ids[2], 1)
    with pytest.raises(TableError, match=f"token {ID_LIMIT} of a (key|pair) is no id") as caught:
        verify(record, None)
    assert caught.value.checked[0] == f"record 1, byte {(0, 4, 20)[column]}"
