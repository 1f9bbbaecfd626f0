"""One measuring run of a user on a host at a time: of two both are told, and none is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from pytest_ngram.files import locked

LOCK = "measuring.lock"  # below the cache folder


class Alone:
    """Holds a lock from the first server on.

    Args:
        lock: the file; its folder is made if it is not there. Beside it a second run leaves a mark.
        warn: called once, if somebody else holds it; or at the end, if somebody else came meanwhile.
    """

    def __init__(self, lock: Path, warn: Callable[[str], None]) -> None:
        self._lock: Path | None = lock
        self._mark = lock.with_suffix(".second")
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
            self._mark.unlink(missing_ok=True)  # what is there was left for a run that is over
            self._held.callback(self._look_for_mark)
        except TimeoutError:
            with suppress(OSError):
                self._mark.touch()
            self._warn("another run is measuring on this host: each slows the other, trust neither")
        except OSError:
            return  # a cache that cannot be written is told where it is needed

    def leave(self) -> None:
        """Give the lock back. Safe to call twice."""
        self._held.close()

    def _look_for_mark(self) -> None:
        with suppress(OSError):
            self._mark.unlink()
            self._warn("another run measured on this host meanwhile: each slowed the other, trust neither")
