"""A saved run as what its servers answered: pytest-benchmark's JSON, or a journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.drafting.streams import Served, served
from pytest_ngram.errors import RecordError
from pytest_ngram.measure import journal
from pytest_ngram.record import Prompt, Record, ServerStart, from_builtins, run_from_builtins

_FIX = "name a JSON that --benchmark-autosave, -save or -json wrote for cells, or a journal of .ngram/"


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
        RecordError: the file is not there, is neither kind, or holds no answered request.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unusable(f"cannot be read: {error.strerror}", path) from error
    data = _json(content)
    if data is None:
        saved = journal.read(path)
        records, starts, prompts = tuple(saved.cells), saved.starts, saved.prompts
    else:
        try:
            records, starts, prompts = _saved(data)
        except RecordError as error:
            raise _with_path(error, path) from error
    try:
        servers = served(records, starts, prompts)
    except RecordError as error:  # token ids that cannot be unpacked
        raise _with_path(error, path) from error
    if not servers:
        raise _unusable("holds no answered request", path)
    return SavedRun(path, records, tuple(servers))


def _saved(data: dict[str, Any]) -> tuple[tuple[Record, ...], tuple[ServerStart, ...], tuple[Prompt, ...]]:
    try:
        benchmarks, told = data["benchmarks"], data["ngram"]
        found = [each.get("extra_info", {}).get("ngram") for each in benchmarks]
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError("it is not a saved run with cells", fix=_FIX) from error
    run = run_from_builtins(told)
    records = (*(from_builtins(each) for each in found if each is not None), *run.failed_cells)
    return records, run.run.starts, run.prompts


def _with_path(error: RecordError, path: Path) -> RecordError:
    return RecordError(f"{path.name}: {error.cause}", checked=[str(path), *error.checked], fix=error.fix)


def _json(content: bytes) -> dict[str, Any] | None:
    """The object of a saved JSON; None for a journal, which is one object a line."""
    try:
        data = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
    return data if isinstance(data, dict) and "kind" not in data else None


def _unusable(what: str, path: Path) -> RecordError:
    return RecordError(
        f"{path.name} {what}",
        checked=[str(path)],
        fix=_FIX,
    )
