"""How long a pull waits: pauses before a request is sent again, and the end of all patience."""

from __future__ import annotations

import email.utils
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from pytest_ngram.corpus.export_limits import Limits
from pytest_ngram.errors import CorpusError

T = TypeVar("T")

_FIX = "check the address and whether the server is well, and pull again"


class PassingError(CorpusError):
    """What may pass by itself: of the server at `base`, which may ask to wait for `pause_s`."""

    def __init__(self, cause: str, *, base: str, pause_s: float | None = None) -> None:
        super().__init__(cause, checked=[base], fix=_FIX)
        self.pause_s = pause_s


class Deadline:
    """Cuts the connection when the time for everything is over.

    A limit on silence alone lets a server that sends a byte now and then hold the pull for ever.
    """

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self.passed = False
        self._end_s = 0.0
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(total_s, self._cut)
        self._timer.daemon = True

    def start(self) -> None:
        """Begin to count."""
        self._end_s = time.monotonic() + self.total_s
        self._timer.start()

    def stop(self) -> None:
        """Cut nothing from now on."""
        self._timer.cancel()

    def left_s(self) -> float:
        """Return what is left."""
        return self._end_s - time.monotonic()

    def note_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Take the connection in use from httpx's trace."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.passed:
                self._cut()

    def error(self) -> CorpusError:
        """Say that the time is over."""
        return CorpusError(
            f"the pull took longer than {self.total_s:g} s",
            checked=["the time counts from the first request, pauses included"],
            fix="raise --max-time if the export is large and the way slow",
        )

    def _cut(self) -> None:
        self.passed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def retried(once: Callable[[], T], limits: Limits, deadline: Deadline, tell: Callable[[str], None]) -> T:
    """Call `once` until it raises no `PassingError`, `limits.retries` times more at most.

    Raises:
        CorpusError: the last of these errors with the number of attempts, or that time is over.
    """
    attempts = limits.retries + 1
    for attempt in range(1, attempts + 1):
        if deadline.passed:
            raise deadline.error()
        try:
            return once()
        except PassingError as error:
            pause_s = error.pause_s
            if pause_s is None:
                pause_s = _pause_s(attempt, limits)
            if attempt == attempts:
                raise _given_up(error, f"attempts: {attempt}") from None
            if pause_s > min(limits.longest_pause_s, deadline.left_s()):
                raise _given_up(error, f"the next attempt would be in {pause_s:.0f} s: too late") from None
            tell(f"{error.cause}; attempt {attempt + 1} of {attempts} in {pause_s:.1f} s")
            time.sleep(pause_s)
    raise AssertionError("the last attempt returns or raises")


def wanted_pause_s(retry_after: str | None) -> float | None:
    """Return what `Retry-After` asks for, in seconds; it may be a date. None where it says nothing."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        when = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)


def _pause_s(attempt: int, limits: Limits) -> float:
    """Return a random half to whole of a pause that doubles: clients that fail together come back apart."""
    whole_s = min(limits.first_pause_s * 2.0 ** (attempt - 1), limits.longest_pause_s)
    return whole_s * random.uniform(0.5, 1.0)


def _given_up(error: PassingError, checked: str) -> CorpusError:
    return CorpusError(error.cause, checked=[*error.checked, checked], fix=error.fix)
