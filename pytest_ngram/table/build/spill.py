"""Sorted runs of a large corpus, kept in a file once memory should hold no more of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pytest_ngram.errors import TableError
from pytest_ngram.table import Longs
from pytest_ngram.table.counts import Kept

# Runs of 67 million tokens.
MEMORY_BYTES = 512 << 20


class Spill:
    """A `table.counts.Keep`: runs stay in memory up to a limit, the others go to a file without a name.

    The file is gone with the process, however that ends. Where it cannot be written, the runs stay in memory:
    a full disk costs memory, never the table.

    Args:
        folder: where the file is made, 8 bytes for each token above the limit; None is the system's folder
            for temporary files (`TMPDIR`).
        memory_bytes: the limit.
    """

    def __init__(self, folder: Path | None = None, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._left_bytes = memory_bytes
        self._file: BinaryIO | None = None
        self._usable = True
        self.spilled_bytes = 0

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()

    def __call__(self, run: Longs) -> Kept:
        """Keep a run."""
        if self._usable and run.nbytes > self._left_bytes:
            try:
                return self._write(run)
            except OSError:
                self._usable = False
        self._left_bytes -= run.nbytes
        return run

    def _write(self, run: Longs) -> _OnDisk:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - see __exit__
        begin = self.spilled_bytes
        left = run.view(np.uint8).data
        while left:
            left = left[self._file.write(left) :]
        self.spilled_bytes += run.nbytes
        return _OnDisk(self._file, begin, len(run))


class _OnDisk:
    """Int64 values in a file from `begin` on."""

    def __init__(self, file: BinaryIO, begin: int, rows: int) -> None:
        self._file = file
        self._begin = begin
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice, /) -> Longs:
        begin, end, _ = rows.indices(self._rows)
        values = np.empty(max(end - begin, 0), np.int64)
        left, at = values.view(np.uint8).data, self._begin + begin * values.itemsize
        while left:
            n_read = os.preadv(self._file.fileno(), [left], at)
            if not n_read:
                raise TableError(
                    "the temporary file with a part of the counts has become shorter",
                    checked=[f"{len(left)} bytes are missing at {at}"],
                    fix="look at what else uses that disk, and build again",
                )
            left, at = left[n_read:], at + n_read
        return values
