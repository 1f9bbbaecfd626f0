"""The part of an engine's log that one request wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pytest_ngram.engine import log_reader

_ENDS = "total time ="  # llama-server prints it after the last step of a request
_PATIENCE_S = 1.0


class LogCursor:
    """Remembers where a log ends now, to read what one request adds to it.

    The engine writes its log from a thread of its own, so the last lines come a moment after the answer.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._offset = _size(path)

    def lines(self) -> list[str] | None:
        """Return the request's lines; None where there is no log or its end did not come."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._path is not None and time.monotonic() < deadline_s:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                text = log.read().decode("utf-8", "replace")
            if _ENDS in text:
                return text.splitlines()
            time.sleep(0.002)
        return None

    def replays(self) -> int | None:
        """Return how many replays the request took; None where the log does not tell.

        A log without any step of the request (trace off, or another verbosity) does not tell.
        """
        lines = self.lines()
        if lines is None or not any(log_reader.trace_step(line) for line in lines):
            return None
        return sum(request.replays for request in log_reader.requests(lines))


def _size(path: Path | None) -> int:
    try:
        return os.stat(path).st_size if path is not None else 0
    except OSError:
        return 0
