"""Saving through pytest-benchmark, so that a full disk loses neither the results nor the report of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.errors import RecordError

if TYPE_CHECKING:
    from pytest_ngram.session import Session


@dataclass
class Saved:
    """What became of saving: the files written, or why there is none."""

    paths: list[Path] = field(default_factory=list)
    error: str | None = None


SAVED = pytest.StashKey[Saved]()


def guard(session: pytest.Session, ngram: Session) -> None:
    """Make pytest-benchmark's saving report a failure instead of ending the session before its summary.

    pytest-benchmark saves inside its `pytest_sessionfinish`, ahead of the terminal summary: an exception
    there would take the whole summary with it. A file that is left half written is removed.
    """
    benchmark = getattr(session.config, "_benchmarksession")  # noqa: B009 - pytest-benchmark's own name for it
    save = benchmark.handle_saving

    def handle_saving() -> None:
        saved = session.config.stash[SAVED] = Saved()
        before = _files(benchmark)
        try:
            save()
        except OSError as error:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            removed = [path for path in _files(benchmark) - before | _json(benchmark) if _remove_broken(path)]
            saved.error = str(_explained(error, removed, ngram))
        saved.paths += sorted((_files(benchmark) - before) | _json(benchmark))

    benchmark.handle_saving = handle_saving


def _explained(error: OSError, removed: list[Path], ngram: Session) -> RecordError:
    return RecordError(
        f"the results could not be saved as JSON: {error.strerror or error}",
        checked=[
            *(f"{path} was left half written and is removed" for path in removed),
            f"all {len(ngram.ledger.records)} cells are in the journal {ngram.ledger.path}",
        ],
        fix=f"make room and run the same command with --ngram-resume={ngram.ledger.path}: nothing is "
        "measured again",
    )


def _files(benchmark: Any) -> set[Path]:
    """The JSON files of a file storage; another kind of storage has none."""
    folder = getattr(benchmark.storage, "path", None)
    return set(Path(folder).rglob("*.json")) if folder is not None else set()


def _json(benchmark: Any) -> set[Path]:
    path = Path(benchmark.json) if benchmark.json else None
    return {path} if path is not None and path.is_file() else set()


def _remove_broken(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        path.unlink(missing_ok=True)
        return True
    except OSError:
        return False
    return False
