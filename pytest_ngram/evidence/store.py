"""Evidence kept for one session: made once, and read by every xdist worker."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.files import locked, write_whole

T = TypeVar("T")
_KEPT_SESSIONS = 3
_LOCK_S = 1800.0


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

    def once(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """Return the value of a name, made by whoever asks first; others wait for it.

        Raises:
            NgramError: what `make` raised, now or when it was tried; `OSError` for a folder that is full.
        """
        if name not in self._known:
            self._known[name] = self._shared(name, kind, make)
        value = self._known[name]
        if isinstance(value, NgramError):
            raise value
        return value  # type: ignore[return-value]

    def _shared(self, name: str, kind: type[T], make: Callable[[], T]) -> object:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{_file_name(name)}.json"
        with locked(path.with_suffix(".lock"), _LOCK_S):
            if not path.exists():
                write_whole(path, msgspec.json.encode(_made(make)))
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        if kept.failure is not None:
            return _raised(kept.failure)
        return msgspec.convert(kept.value, kind)


def session_folder(root: Path, session: str) -> Path:
    """Return the folder of a session under `root`, and remove those of sessions long over."""
    with suppress(OSError):
        others = sorted((p for p in root.iterdir() if p.name != session), key=lambda p: p.stat().st_mtime)
        for old in others[:-_KEPT_SESSIONS]:
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


def _file_name(name: str) -> str:
    """Readable, and different for different names."""
    return f"{re.sub(r'[^a-z0-9.+-]+', '_', name)[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
