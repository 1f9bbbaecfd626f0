"""Evidence kept for one session: made once, and read by every xdist worker."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pytest_ngram.errors import EngineError, NgramError, OptionError
from pytest_ngram.files import hold, is_held, locked, write_whole

T = TypeVar("T")
_KEPT_SESSIONS = 3
_LOCK_S = 1800.0
_IN_USE = "in-use.lock"


class _Failure(msgspec.Struct):
    cause: str
    checked: tuple[str, ...]
    fix: str
    outcome: str
    log_tail: tuple[str, ...] = ()


class _Kept(msgspec.Struct):
    value: Any = None
    failure: _Failure | None = None


class EvidenceStore:
    """Values by name, in memory and in a folder that the workers of one session share.

    A failure is kept as well: a server that died is not started again for each test that wanted its answers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, object] = {}
        self._holds = False

    def once(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """Return the value of a name, made by whoever asks first; others wait for it.

        Raises:
            NgramError: what `make` raised, now or when it was tried, or that the folder cannot be written.
        """
        if name not in self._known:
            self._known[name] = self._shared(name, kind, make)
        value = self._known[name]
        if isinstance(value, NgramError):
            raise value
        return value  # type: ignore[return-value]

    def _shared(self, name: str, kind: type[T], make: Callable[[], T]) -> object:
        path = self.folder / f"{_file_name(name)}.json"
        with self._writing(), locked(path.with_suffix(".lock"), _LOCK_S):
            if not path.exists():
                write_whole(path, msgspec.json.encode(_made(make)))
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        if kept.failure is not None:
            return _raised(kept.failure)
        return msgspec.convert(kept.value, kind)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the folder, so that no other session removes it, and say where it cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._holds:
                hold(self.folder / _IN_USE, self)
                self._holds = True
            yield
        except OSError as error:
            raise OptionError(
                f"the evidence of the gates cannot be kept: {error.strerror or error}",
                checked=[
                    *([f"file: {error.filename}"] if error.filename else []),
                    f"folder: {self.folder}",
                    f"free there: {_free_mb(self.folder)}",
                ],
                fix="make room, or name a journal elsewhere with --ngram-journal: evidence lies beside it",
            ) from error


def session_folder(root: Path, session: str) -> Path:
    """Return the folder of a session under `root`, and remove those of sessions long over, none in use."""
    with suppress(OSError):
        others = sorted((p for p in root.iterdir() if p.name != session), key=lambda p: p.stat().st_mtime)
        for old in others[:-_KEPT_SESSIONS]:
            if not is_held(old / _IN_USE):
                shutil.rmtree(old, ignore_errors=True)
    return root / session


def _made(make: Callable[[], object]) -> _Kept:
    try:
        return _Kept(value=make())
    except NgramError as error:
        outcome = error.outcome if isinstance(error, EngineError) else type(error).__name__
        tail = error.log_tail if isinstance(error, EngineError) else ()
        return _Kept(failure=_Failure(error.cause, error.checked, error.fix, outcome, tail))


def _raised(failure: _Failure) -> EngineError:
    return EngineError(
        failure.cause,
        outcome=failure.outcome,
        checked=failure.checked,
        fix=failure.fix,
        log_tail=failure.log_tail,
    )


def _free_mb(folder: Path) -> str:
    with suppress(OSError):
        return f"{shutil.disk_usage(folder).free / 1e6:.0f} MB"
    return "unknown"


def _file_name(name: str) -> str:
    """Readable, and different for different names."""
    return f"{re.sub(r'[^a-z0-9.+-]+', '_', name)[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
