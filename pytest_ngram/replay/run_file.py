"""A saved run as what its servers answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.drafting.streams import Served, served
from pytest_ngram.measure import run_file
from pytest_ngram.record import Record


@dataclass(frozen=True)
class SavedRun:
    """A run.

    Args:
        path: its file.
        records: its cells, failed ones too.
        servers: what each server answered, in order.
    """

    path: Path
    records: tuple[Record, ...]
    servers: tuple[Served, ...]


def read_run(path: Path) -> SavedRun:
    """Read a saved run.

    Raises:
        RecordError: the file is not there, is no run, or holds no answered request.
    """
    run = run_file.read_run(path)
    with run_file.named(path):  # token ids may be such as cannot be unpacked
        servers = served(run.records, run.starts, run.prompts)
    if not servers:
        raise run_file.NoRunError("holds no answered request", path)
    return SavedRun(path, run.records, tuple(servers))
