"""What an engine's log says of each request, read in step with the requests."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.engine import log_reader
from pytest_ngram.engine.log_reader import RequestLog, TypeStatistics
from pytest_ngram.errors import EngineError
from pytest_ngram.record import TypeDrafts

# llama-server prints it after the last step of a request
_CLOSING = re.compile(rb"\| task (\d+) \|\s+total time =")
# and this after all that it says of the request; the types' statistics stand in between
_RELEASED = re.compile(rb"\| task (\d+) \| stop processing")
_PATIENCE_S = 1.0
_REST_PATIENCE_S = 0.2


@dataclass(frozen=True)
class Said:
    """What the log says of one request.

    Args:
        request: its lines, read; None where one of them cannot be.
        by_type: what each type did, with `accepted` as the statistics have it: a replay's tokens count again.
            None where no statistics were printed, or an earlier request's are missing.
        lines: its lines, and those of requests before it that nobody took.
        draft_ms: how long each type drafted, without MTP's catch-up; None where that was not printed.
        unread: names the line that cannot be read.
    """

    request: RequestLog | None
    by_type: dict[str, TypeDrafts] | None
    lines: tuple[str, ...]
    draft_ms: dict[str, float] | None = None
    unread: EngineError | None = None


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
        self._statistics: Mapping[str, TypeStatistics] | None = {}

    def take(self) -> Said | None:
        """Return what the log says of the newest request; None without a log or without its closing line."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._path is not None:
            lines = self._lines()
            closed = _last_task(_CLOSING, lines)
            is_new = closed > self._last_task
            if is_new and _last_task(_RELEASED, lines) >= closed:
                return self._taken(lines, closed)
            if is_new:  # a build may say nothing after the closing line
                deadline_s = min(deadline_s, time.monotonic() + _REST_PATIENCE_S)
            if time.monotonic() >= deadline_s:
                return self._taken(lines, closed) if is_new else None
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

    def _taken(self, lines: list[bytes], task: int) -> Said | None:
        self._last_task = task
        self._offset += sum(len(line) for line in lines)
        texts = tuple(line.decode("utf-8", "replace") for line in lines)
        try:
            requests = log_reader.requests(texts)
        except EngineError as error:
            self._statistics = None
            return Said(None, None, texts, unread=error)
        for request in requests:
            before, self._statistics = self._statistics, request.statistics or None
            if request.task == task:
                return Said(
                    request,
                    differences(before, request.statistics),
                    texts,
                    draft_ms=durations(before, request.statistics),
                )
        return None


def differences(
    before: Mapping[str, TypeStatistics] | None, after: Mapping[str, TypeStatistics]
) -> dict[str, TypeDrafts] | None:
    """Return what each type did between two readings of its cumulative statistics. Pure.

    Args:
        before: the reading after the request before; empty for a server's first, None where it is missing.
        after: the reading after this one; empty where none was printed.
    """
    if before is None or not after or not before.keys() <= after.keys():
        return None
    found: dict[str, TypeDrafts] = {}
    for name, now in after.items():
        then = before.get(name)
        found[name] = TypeDrafts(
            calls=now.calls[1] - (then.calls[1] if then else 0),
            drafts=now.gen_drafts - (then.gen_drafts if then else 0),
            drafted=now.gen_tokens - (then.gen_tokens if then else 0),
            accepted=now.acc_tokens - (then.acc_tokens if then else 0),
        )
    return found


def durations(
    before: Mapping[str, TypeStatistics] | None, after: Mapping[str, TypeStatistics]
) -> dict[str, float] | None:
    """Return how long each type drafted between two readings, in ms; None where one does not say. Pure.

    Args:
        before: as of `differences`; a type that is not in it had not drafted for any time.
        after: as of `differences`.
    """
    if before is None or not after:
        return None
    found: dict[str, float] = {}
    for name, now in after.items():
        then = before.get(name)
        if now.dur_ms is None or (then is not None and then.dur_ms is None):
            return None
        found[name] = now.dur_ms[1] - (then.dur_ms[1] if then is not None and then.dur_ms else 0.0)
    return found


def _last_task(pattern: re.Pattern[bytes], lines: list[bytes]) -> int:
    tasks = [int(found[1]) for line in lines if (found := pattern.search(line))]
    return tasks[-1] if tasks else -1
