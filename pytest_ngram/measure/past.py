"""Timings of a run that was saved: pytest-benchmark's JSON, or a journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.timings import Source, gather
from pytest_ngram.measure import journal
from pytest_ngram.record import Record, ServerStart, from_builtins, run_from_builtins


def read_past(path: Path) -> Source:
    """Return what a saved run measured.

    Raises:
        OptionError: the file is not there, is neither kind, or measured nothing.
        RecordError: it is one of ours that cannot be read, such as one of another schema.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unusable(f"cannot be read: {error.strerror}", path) from error
    if not content.lstrip().startswith(b"{"):
        raise _unusable("is neither a saved JSON nor a journal", path)
    saved = _json(content)
    records, starts = _of_saved(saved, path) if saved is not None else _of_journal(path)
    models = gather(records, starts)
    if not models:
        raise _unusable("holds no measured cell", path)
    measured_on = _engines(records)
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


def _json(content: bytes) -> dict[str, Any] | None:
    """The object of a saved JSON; None for a journal, which is one object a line."""
    try:
        data = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
    return data if isinstance(data, dict) and "kind" not in data else None


def _of_saved(data: dict[str, Any], path: Path) -> tuple[Sequence[Record], Sequence[ServerStart]]:
    if not isinstance(data.get("benchmarks"), list) or "ngram" not in data:
        raise _unusable("is not a saved run with cells", path)
    found = [each.get("extra_info", {}).get("ngram") for each in data["benchmarks"]]
    records = [from_builtins(each) for each in found if each is not None]
    return records, run_from_builtins(data["ngram"]).run.starts


def _of_journal(path: Path) -> tuple[Sequence[Record], Sequence[ServerStart]]:
    saved = journal.read(path)
    return saved.cells, saved.starts


def _unusable(what: str, path: Path) -> OptionError:
    return OptionError(
        f"the file of --ngram-estimate-from {what}",
        checked=[str(path)],
        fix="name a JSON that --benchmark-autosave, -save or -json wrote for cells, or a journal of .ngram/",
    )
