"""Remembers that a server at a URL could not be taken time after time, so that it is not asked for ever.

A server that is started anew is back within seconds, so it is asked at each start until it has been away for
a while; only then is the rest of the run refused at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pytest_ngram.errors import EngineError

# both must be reached: one long wait may be a server's bad moment, and a dead port is asked in no time
PATIENCE_ASKED = 2
PATIENCE_S = 30.0


class Unanswered:
    """What became of asking one server, in one run.

    Args:
        url: what is asked.
        warn: called once, when it is given up.
        clock_s: a clock that never goes back, in seconds.
    """

    def __init__(
        self, url: str, warn: Callable[[str], None], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._warn = warn
        self._clock_s = clock_s
        self._asked = 0
        self._since_s = 0.0
        self._given_up: EngineError | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask in this block; an `EngineError` of it counts, and an end without one makes up for all before.

        Raises:
            EngineError: the server was given up: the reason of the last time, without asking again.
        """
        if self._given_up is not None:
            raise _again(self._given_up)
        begin_s = self._clock_s()
        try:
            yield
        except EngineError as error:
            if not self._asked:
                self._since_s = begin_s
            self._asked += 1
            away_s = self._clock_s() - self._since_s
            if self._asked >= PATIENCE_ASKED and away_s >= PATIENCE_S:
                self._given_up = error
                self._warn(
                    f"{self._url} could not be taken {self._asked} times in a row, for {away_s:.0f} s: it is "
                    "not asked again in this run; go on with --ngram-resume when it answers"
                )
            raise
        self._asked = 0


def _again(error: EngineError) -> EngineError:
    return EngineError(error.cause, outcome=error.outcome, checked=error.checked, fix=error.fix)
