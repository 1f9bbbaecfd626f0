"""Timings of a run that was saved: pytest-benchmark's JSON, or a journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.timings import Source, gather
from pytest_ngram.measure.run_file import NoRunError, read_run
from pytest_ngram.record import Record


def read_past(path: Path) -> Source:
    """Return what a saved run measured.

    Raises:
        OptionError: the file is not there, is neither kind, or measured nothing.
        RecordError: it is one of ours that cannot be read, such as one of another schema.
    """
    try:
        run = read_run(path)
    except NoRunError as error:
        raise _unusable(error.what, path) from error
    models = gather(run.records, run.starts)
    if not models:
        raise _unusable("holds no measured cell", path)
    measured_on = _engines(run.records)
    return Source(f"{path.name} ({measured_on})" if measured_on else path.name, models)


def _engines(records: Iterable[Record]) -> str:
    """Which engines and processors answered, so that figures of others than today's are seen to be so."""
    found = {
        f"{engine.package or engine.kind} {engine.version or engine.build or ''}".strip(): None
        for record in records
        if (engine := record.engine) is not None
    }
    cpus = {record.host.cpu: None for record in records if record.host is not None and record.host.cpu}
    return ", ".join([*found, *cpus])


def _unusable(what: str, path: Path) -> OptionError:
    return OptionError(
        f"the file of --ngram-estimate-from {what}",
        checked=[str(path)],
        fix="name a JSON that --benchmark-autosave, -save or -json wrote for cells, or a journal of .ngram/",
    )
