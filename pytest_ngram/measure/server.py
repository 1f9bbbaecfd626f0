"""A running server of one start: warmed up, replaced when it dies, ended when it hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_ngram.engine.client import Client
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.measure.trace import RequestLogs

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Kind:
    """What a server is started as, and what follows from that for reading its counts.

    Args:
        stateful: whether what it drafts depends on the requests before.
        speculative: whether it drafts at all.
        prompt_decodes: tokens of a prompt → decodes that it takes.
        launch: starts the engine.
        warm_up: sends what is not measured.
        warn: called when it is found dead.
    """

    stateful: bool
    speculative: bool
    prompt_decodes: Callable[[int], int]
    launch: Callable[[], RunningEngine]
    warm_up: Callable[[Server], int]
    warn: Warn


class Server:
    """A running server of one start. `url` and `client` are for whoever wants to talk to it.

    It is replaced when it has died: `ready` starts another one of the same kind. `serial` is its number among
    the starts of the run, `answered` how many measured requests it has had.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._client: Client | None = None
        self.serial = 0
        self.answered = 0
        self.lost_state = False
        self._start()

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.engine.url

    @property
    def client(self) -> Client:
        """A client of the server that runs now."""
        if self._client is None:
            self._client = Client(self.engine.url)
        return self._client

    @property
    def speculative(self) -> bool:
        """Whether its config drafts at all."""
        return self._kind.speculative

    def prompt_decodes(self, prompt_n: int) -> int:
        """How many decodes a prompt of so many tokens takes."""
        return self._kind.prompt_decodes(prompt_n)

    def ready(self) -> Server:
        """Return this server, started anew and warmed up if it has died.

        Raises:
            EngineError: it cannot be started; or it has died and its config drafts from the requests before,
                which a new server has not seen.
        """
        if not self.engine.alive():
            why = self.engine.explain_exit()
            self._kind.warn(f"between two cells {NgramError.__str__(why)}")
            self.stop()
            self.lost_state = self._kind.stateful
            if not self.lost_state:
                self._start()
        if self.lost_state:
            raise EngineError(
                "the server died, and with it what this config had learned from the prompts before",
                outcome="refused",
                checked=[f"{self.answered} requests were answered before it died"],
                fix="measure the whole start again with --ngram-resume",
            )
        return self

    @contextmanager
    def failing_fast(self) -> Iterator[None]:
        """End a server that hangs or loses a connection, so that the next cell gets a new one."""
        try:
            yield
        except EngineError as error:
            if error.outcome == "hang":
                self.engine.kill()
            elif error.outcome == "crash" and not error.log_tail:
                self.engine.kill()
                raise self.engine.explain_exit() from error
            raise

    def stop(self) -> None:
        """End it. Safe to call twice."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.engine.stop()

    def _start(self) -> None:
        self.engine = self._kind.launch()
        self.logs = RequestLogs(self.engine.log_path)
        self.answered = 0
        try:
            with self.failing_fast():
                self.serial = self._kind.warm_up(self)
        except BaseException:
            self.stop()
            raise
