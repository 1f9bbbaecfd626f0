"""Sorted runs: merged in parts of whole keys, wherever they are kept."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import TableError
from pytest_ngram.table.build.spill import Spill
from pytest_ngram.table.counts import Kept, count_bigrams, count_parts, joined
from pytest_ngram.table.counts.runs import Run, in_memory, merged

MESSAGES = st.lists(st.lists(st.integers(0, 4) | st.just(2**21 - 1), max_size=30), max_size=12)
THIRD = 2**21
RUNS = st.lists(st.lists(st.integers(0, 6 * THIRD), max_size=40), max_size=6)


def plainly(messages: list[list[int]]) -> Counter[tuple[int, ...]]:
    return Counter(t for ids in messages for t in zip(ids, ids[1:], ids[2:], strict=False))


@given(MESSAGES, st.integers(1, 20), st.integers(0, 200))
@settings(deadline=None)
def test_counts_equal_those_of_a_counter_wherever_runs_are(
    messages: list[list[int]], chunk_tokens: int, memory_bytes: int
) -> None:
    """Lists or arrays, any chunk, some runs in memory and the others in a file: a Counter's counts."""
    arrays = [np.array(ids, np.int32) for ids in messages]
    with Spill(memory_bytes=memory_bytes) as keep:
        counts = count_bigrams(arrays, chunk_tokens=chunk_tokens, keep=keep)
    columns = (counts.key_a, counts.key_b, counts.third)
    triples = list(zip(*(column.tolist() for column in columns), strict=True))
    assert dict(zip(triples, counts.count.tolist(), strict=True)) == plainly(messages)
    assert triples == sorted(triples)
    assert [column.dtype for column in (*columns, counts.count)] == [np.int32, np.int32, np.int32, np.int64]


@given(MESSAGES, st.integers(1, 20))
@settings(deadline=None)
def test_no_key_is_in_two_parts(messages: list[list[int]], chunk_tokens: int) -> None:
    """Parts ascend and share no key, so what is done by key can be done part by part."""
    parts = list(count_parts(messages, chunk_tokens=chunk_tokens))
    keys = [list(zip(part.key_a.tolist(), part.key_b.tolist(), strict=True)) for part in parts]
    assert all(before[-1] < after[0] for before, after in pairwise(keys))
    assert joined(parts).equals(count_bigrams(messages))


@given(RUNS, st.integers(1, 30), st.integers(1, 5))
@settings(deadline=None)
def test_merged_is_sorted_whole_and_cut_between_keys(
    values: list[list[int]], part_rows: int, sample_every: int
) -> None:
    """Whatever of a run is at hand, all values come back in order, and no two parts share a key."""
    runs = [Run(np.sort(np.array(run, np.int64)), in_memory, sample_every) for run in values]
    parts = [part.tolist() for part in merged(runs, part_rows)]
    assert [value for part in parts for value in part] == sorted(value for run in values for value in run)
    filled = [part for part in parts if part]
    assert all(a[-1] // THIRD < b[0] // THIRD for a, b in pairwise(filled))


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 7), st.integers(-1, 51))
def test_a_border_is_found_by_reading_one_block(values: list[int], sample_every: int, border: int) -> None:
    """The row found is the one that a search of the whole run finds, and at most one block is read for it."""
    run_values = np.sort(np.array(values, np.int64))
    read: list[int] = []

    class Watched:
        def __len__(self) -> int:
            return len(run_values)

        def __getitem__(self, rows: slice, /) -> np.ndarray:
            read.append(len(run_values[rows]))
            return run_values[rows]

    run = Run(run_values, lambda triples: Watched(), sample_every)
    assert run.find(border) == np.searchsorted(run_values, border)
    assert sum(read) <= sample_every


def test_parts_are_about_as_large_as_asked_for() -> None:
    """Many runs of spread keys come in parts of like size: memory is that of a part, not of all."""
    rng = np.random.default_rng(1)
    runs = [Run(np.sort(rng.integers(0, 2**62, 20_000)), in_memory, 64) for _ in range(10)]
    sizes = [len(part) for part in merged(runs, 20_000)]
    assert len(sizes) == 10
    assert max(sizes) < 30_000


def test_a_spilled_run_reads_as_it_was(tmp_path: Path) -> None:
    """What is above the limit lies in a file without a name, and slices of it are those of the run."""
    runs = [np.arange(100, dtype=np.int64) * step for step in (1, 2, 3)]
    with Spill(tmp_path, memory_bytes=800) as keep:
        kept = [keep(run) for run in runs]
        assert kept[0] is runs[0]
        assert keep.spilled_bytes == 1600
        assert list(tmp_path.iterdir()) == []
        for run, each in zip(runs, kept, strict=True):
            assert len(each) == 100
            for rows in (slice(0, 100), slice(7, 31), slice(90, 200), slice(5, 5), slice(8, 2)):
                assert np.array_equal(each[rows], run[rows])


def test_a_disk_that_cannot_be_written_costs_memory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no file can be made for the runs, they stay in memory and the counts are the same."""

    def full(**options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    messages = [[1, 2, 3, 1, 2, 3], [1, 2, 4]]
    with Spill(tmp_path, memory_bytes=0) as keep:
        counts = count_bigrams(messages, chunk_tokens=3, keep=keep)
        assert keep.spilled_bytes == 0
    assert counts.equals(count_bigrams(messages))


def test_a_spilled_run_that_was_cut_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that lost its end never gives other counts."""
    made: list[int] = []
    real = tempfile.TemporaryFile

    def noted(**options: object) -> object:
        file = real(**options)  # type: ignore[call-overload]
        made.append(file.fileno())
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    with Spill(tmp_path, memory_bytes=0) as keep:
        kept: Kept = keep(np.arange(100, dtype=np.int64))
        os.ftruncate(made[0], 400)
        assert kept[0:50].tolist() == list(range(50))
        with pytest.raises(TableError, match="has become shorter"):
            kept[0:51]
