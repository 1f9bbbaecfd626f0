"""Servers for cells: checked before they start, warmed up after it, replaced when they die."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from pytest_ngram.engine import command, flags, preflight, process
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import ConfigSpec, MatrixSpec
from pytest_ngram.measure import host
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.memory import anonymous_need_bytes
from pytest_ngram.record import ServerStart

WARMUP_TOKENS = 16
OnStart = Callable[[ServerStart], None]
Warn = Callable[[str], None]


class Server:
    """A running server of one start. `url` and `client` are for whoever wants to talk to it.

    It is replaced when it has died: `ready` starts another one of the same kind.
    """

    def __init__(self, launch: Callable[[], EngineProcess], warm_up: Callable[[Server], float]) -> None:
        self._launch = launch
        self._warm_up = warm_up
        self._client: Client | None = None
        self.engine = launch()
        self._prepare()

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

    def ready(self) -> Server:
        """Return this server, started anew and warmed up if it has died. Raises `EngineError`."""
        if not self.engine.alive():
            self.stop()
            self.engine = self._launch()
            self._prepare()
        return self

    def stop(self) -> None:
        """End it. Safe to call twice."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.engine.stop()

    def _prepare(self) -> None:
        try:
            self._warm_up(self)
        except BaseException:
            self.stop()
            raise


class Servers:
    """Starts the servers of a matrix.

    Args:
        matrix: the decoded matrix.
        models: opens its models.
        logs: a folder for the servers' logs.
        cache: where the hash of an engine is kept.
        force: start although the memory that is surely needed exceeds what is free.
        load_deadline_s: how long a server may take until it is ready.
        on_start: called with each start that succeeded, warm-up included.
        warn: called with what the user should know.
    """

    def __init__(
        self,
        matrix: MatrixSpec,
        models: Models,
        *,
        logs: Path,
        cache: Path,
        force: bool = False,
        load_deadline_s: float = 600.0,
        on_start: OnStart = lambda start: None,
        warn: Warn = lambda text: None,
    ) -> None:
        self._matrix = matrix
        self._models = models
        self._logs = logs
        self._cache = cache
        self._force = force
        self._load_deadline_s = load_deadline_s
        self._on_start = on_start
        self._warn = warn
        self._numbers = itertools.count(1)
        self._warned: set[str] = set()

    def serve(self, start: Start, table_path: Path | None) -> Server:
        """Start the server of a start and warm it up.

        Raises:
            ModelError, EngineError: found before the server starts, or by its end. Nothing is left running.
        """
        model = self._models.open(start.model)
        argv = self.argv(model, start, table_path)
        self.check(model, argv)
        return Server(lambda: self._launch(start, argv), lambda server: self._warm_up(start, server))

    def tokenizer(self, model_name: str) -> Server:
        """Start a server of a model without speculation, to tokenize a corpus with. Not warmed up."""
        model = self._models.open(model_name)
        start = Start(model=model_name, config="tokenize", block=0, position=0)
        argv = self._argv(model, start.model, ConfigSpec(), None)
        self.check(model, argv)
        return Server(lambda: self._launch(start, argv), lambda server: 0.0)

    def argv(self, model: Model, start: Start, table_path: Path | None) -> tuple[str, ...]:
        """Return llama-server's command line of a start. Raises `EngineError` for flags that clash."""
        return self._argv(model, start.model, self._matrix.configs[start.config], table_path)

    def check(self, model: Model, argv: tuple[str, ...]) -> None:
        """Find, before a server starts, what would make it fail. Raises `ModelError` or `EngineError`."""
        parsed = flags.parse(argv)
        warnings = list(preflight.check(model.facts, parsed))
        memory = preflight.check_memory(
            model_bytes=model.facts.size_bytes,
            anonymous_need_bytes=_anonymous_need_bytes(model.facts, parsed),
            available_bytes=host.available_bytes(),
            force=self._force,
        )
        for warning in (*warnings, *filter(None, [memory])):
            self._warn_once(f"{model.facts.path.name}: {warning}")

    def _argv(
        self, model: Model, model_name: str, config: ConfigSpec, table_path: Path | None
    ) -> tuple[str, ...]:
        return command.server_argv(
            model.path,
            model_flags=shlex.split(self._matrix.models[model_name].flags),
            spec_types=config.types,
            config_flags=shlex.split(config.flags),
            table_path=table_path,
        )

    def _launch(self, start: Start, argv: tuple[str, ...]) -> EngineProcess:
        name = start.id.replace("/", "_")
        return process.start(
            argv,
            log_path=self._logs / f"{next(self._numbers):04d}_{name}.log",
            cache_dir=self._cache,
            ready_timeout_s=self._load_deadline_s,
            trace=True,
        )

    def _warm_up(self, start: Start, server: Server) -> float:
        """Send the warm-up prompt and throw the answer away: a first request is many times slower."""
        begin_s = time.monotonic()
        prompt = server.client.tokenize(self._matrix.warmup, parse_special=False, add_special=True)
        request = CompletionRequest(prompt=prompt, n_predict=WARMUP_TOKENS, temperature=0.0, seed=1)
        guarded(
            server.engine,
            lambda: server.client.completion(request),
            no_progress_s=self._matrix.hang_after_s,
        )
        warmup_s = time.monotonic() - begin_s
        self._on_start(
            ServerStart(
                model=start.model,
                config=start.config,
                block=start.block,
                pass_=start.pass_,
                load_s=server.engine.load_s,
                warmup_s=warmup_s,
            )
        )
        return warmup_s

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)


def _anonymous_need_bytes(facts: ModelFacts, parsed: flags.Parsed) -> int:
    return anonymous_need_bytes(
        facts,
        n_ctx=parsed.get("ctx-size", 0) or facts.n_ctx_train,
        type_k=parsed.get("cache-type-k", "f16"),
        type_v=parsed.get("cache-type-v", "f16"),
        mmap=parsed.get("load-mode", "auto") in ("auto", "mmap", "mmap+mlock"),
        mtp="draft-mtp" in parsed.spec_types,
    )
