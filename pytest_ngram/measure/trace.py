"""What an engine's log says of each request, read in step with the requests."""

from __future__ import annotations

import re
import time
from pathlib import Path

from pytest_ngram.engine import log_reader

# llama-server prints it after the last step of a request
_CLOSING = re.compile(rb"\| task (\d+) \|\s+total time =")
_PATIENCE_S = 1.0


class RequestLogs:
    """Takes the lines of one request after another out of a growing log.

    The engine writes its log from a thread of its own, so the last lines of a request come a moment after the
    answer: `take` waits for the closing line of a request that was not taken yet. It has to be called after
    every request, warm-up included, or it returns the lines of an earlier one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._offset = 0
        self._last_task = -1

    def take(self) -> log_reader.RequestLog | None:
        """Return what the log says of the newest request; None without a log or without its closing line."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._path is not None and time.monotonic() < deadline_s:
            lines = self._lines()
            tasks = [int(found[1]) for line in lines if (found := _CLOSING.search(line))]
            if tasks and tasks[-1] > self._last_task:
                self._last_task = tasks[-1]
                self._offset += sum(len(line) for line in lines)
                return self._of_task(lines, tasks[-1])
            time.sleep(0.002)
        return None

    def _lines(self) -> list[bytes]:
        """Whole lines since the last `take`; one that is still being written waits for the next look."""
        if self._path is None:
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        return text[: text.rfind(b"\n") + 1].splitlines(keepends=True)

    @staticmethod
    def _of_task(lines: list[bytes], task: int) -> log_reader.RequestLog | None:
        texts = [line.decode("utf-8", "replace") for line in lines]
        for request in log_reader.requests(texts):
            if request.task == task:
                return request
        return None
