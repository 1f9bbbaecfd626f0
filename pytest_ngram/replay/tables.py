"""Table files for `ngram-cache`, in the order of their records, which decides ties."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from pytest_ngram.drafting.counts import Counts, new_counts, read_table
from pytest_ngram.errors import TableError
from pytest_ngram.table.format.checks import checked


def load_counts(path: Path, sha256: str | None = None) -> Counts:
    """Read a table file.

    Args:
        path: a file for `-lcs` or `-lcd`.
        sha256: of the file that is meant; None for whichever it is.

    Raises:
        TableError: it is missing, damaged, or another one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TableError(
            f"the table {path.name} cannot be read: {error.strerror}",
            checked=[str(path)],
            fix="name the table that the run used with --table",
        ) from error
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise TableError(
            f"the table {path.name} is not the one that the run used",
            checked=[str(path), f"the run's: sha256 {sha256}"],
            fix="name the run's own table with --table, or build it again from its corpus",
        )
    try:
        parsed = checked(data, None, "count")
    except TableError as error:
        raise TableError(
            f"the table {path.name} cannot be used: {error.cause}",
            checked=[str(path), *error.checked],
            fix=error.fix,
        ) from error
    counts = new_counts((len(parsed.keys) * 4 + len(parsed.token)) // 4 + 1)
    starts = np.concatenate(([0], np.cumsum(parsed.n_pairs))).astype(np.int64)
    read_table(
        counts,
        parsed.keys.astype(np.int64),
        starts,
        parsed.token.astype(np.int64),
        parsed.count.astype(np.int64),
    )
    return counts
