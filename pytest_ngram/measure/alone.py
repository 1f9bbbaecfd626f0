"""One measuring run of a user on a host at a time: a second one is told, not forbidden."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from pytest_ngram.files import locked


class Alone:
    """Holds a lock from the first server on.

    Args:
        lock: the file; its folder is made if it is not there.
        warn: called once, if somebody else holds it.
    """

    def __init__(self, lock: Path, warn: Callable[[str], None]) -> None:
        self._lock: Path | None = lock
        self._warn = warn
        self._held = ExitStack()

    def enter(self) -> None:
        """Take the lock, if that was not tried before."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(locked(lock, 0.0))
        except TimeoutError:
            self._warn("another run is measuring on this host: each slows the other, trust neither")
        except OSError:
            return  # a cache that cannot be written is told where it is needed

    def leave(self) -> None:
        """Give the lock back. Safe to call twice."""
        self._held.close()
