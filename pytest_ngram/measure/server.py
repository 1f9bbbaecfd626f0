"""A running server of one start: warmed up, replaced when it dies, ended when it hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from pytest_ngram import record
from pytest_ngram.engine import log_tail
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.watchdog import is_dead
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.measure.offered import not_offered
from pytest_ngram.measure.trace import RequestLogs

Warn = Callable[[str], None]
_GENERATED = "llamacpp:tokens_predicted_total"


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
        warn_once: called with what its build lacks, as soon as it is seen.
        patience_s: how long an answer may take that is no completion.
    """

    stateful: bool
    speculative: bool
    prompt_decodes: Callable[[int], int]
    launch: Callable[[], RunningEngine]
    warm_up: Callable[[Server], int]
    warn: Warn
    warn_once: Warn = lambda text: None
    patience_s: float = 30.0


class Server:
    """A running server of one start. `url` and `client` are for whoever wants to talk to it.

    It is replaced when it has died: `ready` starts another one of the same kind. `serial` is its number among
    the starts of the run, `answered` how many measured requests it has had.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._client: Client | None = None
        self._n_ctx: int | None = None
        self.serial = 0
        self.answered = 0
        self.lost_state: str | None = None
        self.capabilities: dict[str, bool] = {}
        self.counted: Mapping[str, float] | None = None
        self.anon_mb: list[float | None] = []  # after each request
        self._end_was_told = False
        self._start()

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.engine.url

    @property
    def client(self) -> Client:
        """A client of the server that runs now."""
        if self._client is None:
            self._client = Client(self.engine.url, timeout_s=self._kind.patience_s, key=self.engine.key)
        return self._client

    @property
    def n_ctx(self) -> int | None:
        """Tokens that its context holds, as it says; None where it does not."""
        if self._n_ctx is None:
            with self.failing_fast():
                n_ctx = self.client.props().default_generation_settings.get("n_ctx")
            self._n_ctx = n_ctx if isinstance(n_ctx, int) else None
        return self._n_ctx

    @property
    def speculative(self) -> bool:
        """Whether its config drafts at all."""
        return self._kind.speculative

    @property
    def stateful(self) -> bool:
        """Whether what it drafts depends on the requests before."""
        return self._kind.stateful

    def describe(self) -> record.Engine:
        """Say which engine it is, with what its answers have shown so far."""
        engine = self.engine.describe()
        return structs.replace(engine, capabilities={**engine.capabilities, **self.capabilities})

    def saw(self, capabilities: Mapping[str, bool]) -> None:
        """Note what an answer showed; what was there once is there."""
        for name, is_there in capabilities.items():
            self.capabilities[name] = is_there or self.capabilities.get(name, False)
        for lacking in not_offered(self.capabilities, speculative=self.speculative):
            engine = self.engine.describe()
            build = engine.label or " ".join(filter(None, (engine.package, engine.version))) or engine.kind
            self._kind.warn_once(f"not offered by this build ({build}): {lacking}")

    def could_not_read(self, error: EngineError) -> None:
        """Say, once for each cause, that a line of the log cannot be read, and what is null for it."""
        self._kind.warn_once(f"{error.cause}; what comes from the log is null: {'; '.join(error.checked)}")

    def metrics(self) -> dict[str, float]:
        """Return `/metrics`; nothing where the build has none. Raises `EngineError`."""
        return self.client.metrics() if self.capabilities.get("metrics", True) else {}

    def prompt_decodes(self, prompt_n: int) -> int:
        """How many decodes a prompt of so many tokens takes."""
        return self._kind.prompt_decodes(prompt_n)

    def ready(self) -> Server:
        """Return this server, started anew and warmed up if it has died or another one took its place.

        Raises:
            EngineError: it cannot be started; or it has died and its config drafts from the requests before,
                which a new server has not seen.
        """
        if self.lost_state is None:
            self._replace_if_gone()
        if self.lost_state is not None:
            raise EngineError(
                self.lost_state,
                outcome="refused",
                checked=[f"{self.answered} requests were answered before"],
                fix="measure the whole start again with --ngram-resume",
            )
        return self

    def look_for_others(self, metrics: Mapping[str, float]) -> bool:
        """Say so if a server has generated since our last request: somebody else asks it too.

        Returns:
            Whether it may go on with a request of ours that failed, so that what it counts next is of both.

        Raises:
            EngineError: its config drafts from earlier requests, and theirs were among these.
        """
        if self._end_was_told:
            self._end_was_told = False
            return True
        then, now = (counts.get(_GENERATED) if counts else None for counts in (self.counted, metrics))
        if then is not None and now is not None and then != now:
            what = f"{now - then:.0f} tokens were generated for somebody else between two cells"
            self.counted = metrics
            if self._kind.stateful:
                raise self.disturbed(f"{self.url}: {what}", [])
            self._kind.warn(f"{self.url}: {what}")
        return False

    def disturbed(self, cause: str, checked: Sequence[str]) -> EngineError:
        """Return the error for what somebody else's requests spoilt, to be raised; remember lost state."""
        if self._kind.stateful:
            cause = f"{cause}, and this config has learned from that"
            self.lost_state = cause
        return EngineError(
            cause,
            outcome="refused",
            checked=[f"{self.url} counts for all who ask it", *checked],
            fix="leave the server to the run alone"
            + (", start it anew" if self._kind.stateful else "")
            + ", and measure what is missing with --ngram-resume",
        )

    def _replace_if_gone(self) -> None:
        why = None
        if not self.engine.alive():
            why = NgramError.__str__(self.engine.explain_exit())
        elif self.engine.replaced(self.counted.get(_GENERATED) if self.counted else None):
            why = f"the server at {self.url} was started anew"
        if why is None:
            return
        if not self._end_was_told:
            self._kind.warn(f"between two cells {why}")
        self.stop()
        if self._kind.stateful:
            self.lost_state = (
                "the server died, and with it what this config had learned from the prompts before"
            )
        else:
            self._start()

    @contextmanager
    def failing_fast(self) -> Iterator[None]:
        """End a server that hangs or loses a connection, so that the next cell gets a new one."""
        try:
            yield
        except EngineError as error:
            if error.outcome not in ("hang", "crash", "oom"):
                raise
            self._end_was_told = True
            told = bool(error.log_tail)
            # a connection breaks a moment before its process is seen to end
            gone = not told and error.outcome == "crash" and (self.engine.pid is None or is_dead(self.engine))
            self.engine.kill()
            if gone:
                raise self.engine.explain_exit() from error
            if told or self.engine.log_path is None:
                raise
            raise _with_log(error, self.engine.log_path) from error

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
        self.anon_mb = []
        self.counted = None
        self._end_was_told = False
        try:
            with self.failing_fast():
                self.serial = self._kind.warm_up(self)
                if self.engine.pid is None:
                    self.counted = self.metrics()
        except BaseException:
            self.stop()
            raise


def _with_log(error: EngineError, log_path: Path) -> EngineError:
    return EngineError(
        error.cause,
        outcome=error.outcome,
        checked=[*error.checked, f"log: {log_path}"],
        fix=error.fix,
        log_tail=log_tail.tail(log_path),
    )
