"""A saved run, read back: pytest-benchmark's JSON, or a journal. The one reader for all that needs a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.errors import RecordError
from pytest_ngram.measure import journal
from pytest_ngram.record import RunData, from_builtins, run_from_builtins


class NoRunError(RecordError):
    """The file holds no run of ours at all. `what` is what is wrong with it, to follow its name."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(
            f"{path.name} {what}",
            checked=[str(path)],
            fix="name a JSON that --benchmark-autosave, -save or -json wrote for cells, or a journal of "
            ".ngram/",
        )
        self.what = what


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Let an error of what a file holds name the file."""
    try:
        yield
    except NoRunError:
        raise
    except RecordError as error:
        checked = [str(path), *error.checked]
        raise RecordError(f"{path.name}: {error.cause}", checked=checked, fix=error.fix) from error


def read_run(path: Path) -> RunData:
    """Return a run. Of a cell that a journal holds twice, as after a failure, the later one counts.

    Raises:
        NoRunError: the file is not there, or is neither kind.
        RecordError: it is one of ours that cannot be read, such as one of another schema.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoRunError(f"cannot be read: {error.strerror}", path) from error
    if not content.lstrip().startswith(b"{"):
        raise NoRunError("is neither a saved JSON nor a journal", path)
    saved = _json(content)
    if saved is not None:
        with named(path):
            return _of_saved(saved, path)
    if not content.lstrip().startswith(b'{"kind"'):
        raise NoRunError("is no whole JSON: it was cut off or edited", path)
    return _of_journal(path)


def _json(content: bytes) -> dict[str, Any] | None:
    """The object of a saved JSON; None for a journal, which is one object a line."""
    try:
        data = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return data if isinstance(data, dict) and "kind" not in data else None


def _of_saved(data: dict[str, Any], path: Path) -> RunData:
    benchmarks = data.get("benchmarks")
    if not isinstance(benchmarks, list) or "ngram" not in data:
        raise NoRunError("is not a saved run with cells", path)
    infos = [each.get("extra_info") if isinstance(each, dict) else None for each in benchmarks]
    found = [info["ngram"] for info in infos if isinstance(info, dict) and info.get("ngram") is not None]
    file = run_from_builtins(data["ngram"])
    return RunData.of(path.name, file, (*map(from_builtins, found), *file.failed_cells), _when(data))


def _when(data: dict[str, Any]) -> str | None:
    told = data.get("datetime")
    try:
        return datetime.fromisoformat(told).isoformat() if isinstance(told, str) else None
    except ValueError:
        return None


def _of_journal(path: Path) -> RunData:
    saved = journal.read(path)
    header = saved.header
    return RunData(
        name=path.name,
        version=header.version,
        profile=header.profile,
        matrix_sha256=header.matrix_sha256,
        seed=header.seed,
        records=tuple({record.cell: record for record in saved.cells}.values()),
        starts=saved.starts,
        prompts=saved.prompts,
    )
