"""Sorted runs of packed triples, and their merge in parts that hold whole keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from pytest_ngram.table import Longs
from pytest_ngram.table.counts.packing import THIRD_MASK

# Of every so many values of a run one is at hand, wherever the run itself is kept.
SAMPLE_EVERY = 4096


class Kept(Protocol):
    """A run where `Keep` has put it; slices are read back."""

    def __len__(self) -> int:
        """How many triples it has."""
        ...

    def __getitem__(self, rows: slice, /) -> Longs:
        """The triples of a slice without a step."""
        ...


Keep = Callable[[Longs], Kept]


def in_memory(run: Longs) -> Kept:
    """Keep a run as it is: 8 bytes for each token."""
    return run


class Run:
    """Ascending triples, equal ones as often as they came.

    Args:
        triples: int64.
        keep: where they are kept until they are merged.
        sample_every: how many rows are read at most to find one of them.
    """

    def __init__(self, triples: Longs, keep: Keep, sample_every: int = SAMPLE_EVERY) -> None:
        self.sample: Longs = triples[::sample_every].copy()
        self._every = sample_every
        self._kept = keep(triples)

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, border: int) -> int:
        """The first row that is not below `border`."""
        at = int(np.searchsorted(self.sample, border))
        begin = max(at - 1, 0) * self._every
        return begin + int(np.searchsorted(self.rows(begin, min(at * self._every, len(self))), border))

    def rows(self, begin: int, end: int) -> Longs:
        """Read rows `begin` to `end`."""
        return self._kept[begin:end]


def merged(runs: Sequence[Run], part_rows: int) -> Iterator[Longs]:
    """Yield all triples, ascending, in parts of about `part_rows`; a key is in one part alone.

    A part is larger where a single key is.
    """
    if len(runs) == 1:
        yield runs[0].rows(0, len(runs[0]))
        return
    begins = [0] * len(runs)
    for border in (*_borders(runs, part_rows), None):
        ends = [len(run) if border is None else run.find(border) for run in runs]
        rows = [run.rows(begin, end) for run, begin, end in zip(runs, begins, ends, strict=True)]
        begins = ends
        yield _in_order(rows)


def _in_order(rows: Sequence[Longs]) -> Longs:
    part = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    # "stable" is a merge sort here, which finds the ascending runs and only merges them
    part.sort(kind="stable")
    return part


def _borders(runs: Sequence[Run], part_rows: int) -> list[int]:
    """First triples of a key that cut all runs together into parts of about `part_rows`."""
    n_parts = -(-sum(map(len, runs)) // part_rows)
    sample = np.sort(np.concatenate([run.sample for run in runs])) if runs else np.zeros(0, np.int64)
    at = np.arange(1, n_parts) * len(sample) // max(n_parts, 1)
    borders: list[int] = np.unique(sample[at] & ~THIRD_MASK).tolist()
    return borders
