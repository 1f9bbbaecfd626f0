"""Guards one request: a server that makes no progress is ended, so that the request returns.

On b11549 `/slots` is answered within milliseconds even during a decode; older builds answer between two
decodes. So no answer is neither progress nor death; it only lets the time without progress run on. A dead
server closes its connections, which ends the request by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pytest_ngram.engine import log_tail
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.errors import EngineError

T = TypeVar("T")

# what an answer may take on its way, once nothing is left to be done
_ANSWER_S = 0.5


@dataclass(frozen=True)
class Progress:
    """What `/slots` last said of the running request, in tokens, and when, in seconds since it began."""

    n_decoded: int
    n_prompt_tokens_processed: int
    elapsed_s: float


class Watchdog:
    """Watches `engine` while a request runs; a context manager around that request.

    Args:
        engine: the server; one of our own is ended.
        no_progress_s: how long no new token, decoded or of the prompt, is a hang. A prompt counts batch by
            batch, so this must be longer than one batch (`-b`) takes.
        first_poll_s: no poll before this, so that short requests are never disturbed.
        poll_s: seconds between two polls.
        on_progress: called from the watching thread with each answer.
        cut: ends the request where ending the server is not ours to do.
    """

    def __init__(
        self,
        engine: RunningEngine,
        *,
        no_progress_s: float = 120.0,
        first_poll_s: float = 1.0,
        poll_s: float = 1.0,
        on_progress: Callable[[Progress], None] | None = None,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._no_progress_s = no_progress_s
        self._first_poll_s = min(first_poll_s, no_progress_s)
        self._poll_s = min(poll_s, no_progress_s)
        self._on_progress = on_progress
        self._cut = cut
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ngram-watchdog", daemon=True)
        self._begin = 0.0
        self.last: Progress | None = None
        self.hang: EngineError | None = None

    def __enter__(self) -> Watchdog:
        self._begin = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._done.wait(self._first_poll_s):
            return
        last_progress = self._begin
        patience_s = max(1.0, min(10.0, self._no_progress_s))
        with Client(self._engine.url, timeout_s=patience_s, key=self._engine.key) as client:
            over = False
            while not over:
                if not self._engine.alive():
                    # what it left running may still hold the request's connection open
                    self._engine.kill()
                    return
                if self._progressed(client):
                    last_progress = time.monotonic()
                elif time.monotonic() - last_progress >= self._no_progress_s and not self._answers():
                    self.hang = self._explain_hang()
                    self._engine.kill()
                    self._cut()
                    return
                over = self._done.wait(self._poll_s)

    def _answers(self) -> bool:
        """Whether the answer comes after all: a server that has just finished counts nothing any more."""
        return self._done.wait(_ANSWER_S)

    def _progressed(self, client: Client) -> bool:
        try:
            slots = client.slots()
        except EngineError:
            return False
        now = Progress(
            n_decoded=sum(slot.n_decoded for slot in slots),
            n_prompt_tokens_processed=sum(slot.n_prompt_tokens_processed for slot in slots),
            elapsed_s=time.monotonic() - self._begin,
        )
        before, self.last = self.last, now
        if self._on_progress is not None:
            self._on_progress(now)
        counts = (now.n_decoded, now.n_prompt_tokens_processed)
        # the first answer is progress only if something has been done at all
        return counts != ((before.n_decoded, before.n_prompt_tokens_processed) if before else (0, 0))

    def _explain_hang(self) -> EngineError:
        if self.last is None:
            seen = "/slots never answered"
        else:
            seen = (
                f"/slots last answered {self.last.elapsed_s:.1f} s after the request began: "
                f"{self.last.n_decoded} tokens decoded, "
                f"{self.last.n_prompt_tokens_processed} of the prompt processed"
            )
        log_path = self._engine.log_path
        return EngineError(
            f"the server made no progress for {self._no_progress_s:g} s",
            outcome="hang",
            checked=[seen, *([f"the process ran until we ended it; log: {log_path}"] if log_path else [])],
            fix="look at what else keeps the cores busy, or allow more time",
            log_tail=log_tail.tail(log_path) if log_path is not None else (),
        )


def guarded(
    engine: RunningEngine,
    request: Callable[[], T],
    *,
    no_progress_s: float = 120.0,
    first_poll_s: float = 1.0,
    poll_s: float = 1.0,
    on_progress: Callable[[Progress], None] | None = None,
    cut: Callable[[], None] = lambda: None,
) -> T:
    """Run `request` under a `Watchdog` and return its result.

    Args:
        engine: the server that answers.
        request: a blocking call, such as `lambda: client.completion(...)`.
        no_progress_s, first_poll_s, poll_s, on_progress, cut: as for `Watchdog`.

    Raises:
        EngineError: `hang` with what was last seen; the server's end explained (`crash`, `oom`); or what
            `request` raised, where the server still runs.
    """
    dog = Watchdog(
        engine,
        no_progress_s=no_progress_s,
        first_poll_s=first_poll_s,
        poll_s=poll_s,
        on_progress=on_progress,
        cut=cut,
    )
    raised: EngineError | None = None
    with dog:
        try:
            result = request()
        except EngineError as error:
            raised = error
    if dog.hang is not None:
        raise dog.hang from raised
    if raised is None:
        return result
    if raised.outcome == "crash" and is_dead(engine):
        raise engine.explain_exit() from raised
    raise raised


def is_dead(engine: RunningEngine, patience_s: float = 2.0) -> bool:
    """Whether the server is gone. Its connections break a moment before its process is seen to end."""
    deadline = time.monotonic() + patience_s
    while engine.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
