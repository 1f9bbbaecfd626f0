"""Servers for cells: checked before they start, warmed up after it, replaced when they die."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_ngram.engine import command, decodes, flags, preflight
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.vocabulary import Vocabulary
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import ConfigSpec, MatrixSpec, ModelSpec
from pytest_ngram.measure import host
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.server import Kind, Server, Warn
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.memory import anonymous_need_bytes
from pytest_ngram.record import ServerStart

WARMUP_TOKENS = 16
OnStart = Callable[[ServerStart], None]


class Servers:
    """Starts the servers of a matrix.

    Args:
        matrix: the decoded matrix.
        models: opens its models.
        factory: starts servers of the engine that the user chose.
        logs: a folder for the servers' logs.
        force: start although the memory that is surely needed exceeds what is free.
        load_deadline_s: how long a server may take until it is ready.
        first_serial: number of the first start; above 1 where a run is resumed.
        on_start: called with each start that succeeded, warm-up included.
        warn: called with what the user should know.
    """

    def __init__(
        self,
        matrix: MatrixSpec,
        models: Models,
        factory: Factory,
        *,
        logs: Path,
        force: bool = False,
        load_deadline_s: float = 600.0,
        first_serial: int = 1,
        on_start: OnStart = lambda start: None,
        warn: Warn = lambda text: None,
    ) -> None:
        self._matrix = matrix
        self._models = models
        self._factory = factory
        self._logs = logs
        self._force = force
        self._load_deadline_s = load_deadline_s
        self._on_start = on_start
        self._warn = warn
        self._serials = itertools.count(first_serial)
        self._log_numbers = itertools.count(1)
        self._warned: set[str] = set()

    def serve(self, start: Start, table_path: Path | None) -> Server:
        """Start the server of a start and warm it up.

        Raises:
            ModelError, EngineError: found before the server starts, or by its end. Nothing is left running.
        """
        model = self._models.open(start.model)
        argv = self.argv(model, start, table_path)
        self.check(model, argv)
        config = self._matrix.configs[start.config]
        return Server(
            Kind(
                stateful=config.stateful,
                speculative=bool(config.types),
                prompt_decodes=prompt_decodes(model.facts, self._factory.vocabulary.parse(argv)),
                launch=lambda: self._launch(start, argv, model),
                warm_up=lambda server: self._warm_up(start, server),
                warn=self._warn,
            )
        )

    def tokenizer(self, model_name: str) -> Server:
        """Start a server of a model without speculation, to tokenize a corpus with. Not warmed up."""
        model = self._models.open(model_name)
        start = Start(model=model_name, config="tokenize", temperature=0.0, block=0, position=0)
        spec = self._matrix.models[start.model]
        argv = compose_argv(model.path, spec, ConfigSpec(), None, self._factory.vocabulary)
        self.check(model, argv)
        return Server(
            Kind(
                stateful=False,
                speculative=False,
                prompt_decodes=prompt_decodes(model.facts, self._factory.vocabulary.parse(argv)),
                launch=lambda: self._launch(start, argv, model),
                warm_up=lambda server: 0,
                warn=self._warn,
            )
        )

    def argv(self, model: Model, start: Start, table_path: Path | None) -> tuple[str, ...]:
        """Return llama-server's command line of a start. Raises `EngineError` for flags that clash."""
        spec, config = self._matrix.models[start.model], self._matrix.configs[start.config]
        return compose_argv(model.path, spec, config, table_path, self._factory.vocabulary)

    def check(self, model: Model, argv: tuple[str, ...], *, measured: bool = True) -> None:
        """Find, before a server starts, what would make it fail. Raises `ModelError` or `EngineError`.

        Only of a server that is to be measured is it told which flags a measurement wants otherwise.
        """
        parsed = self._factory.vocabulary.parse(argv)
        self._factory.check(parsed.spec_types, argv)
        warnings = [
            *preflight.check(model.facts, parsed),
            *(_against_measuring_rules(parsed) if measured else ()),
        ]
        memory = preflight.check_memory(
            model_bytes=model.facts.size_bytes,
            anonymous_need_bytes=_anonymous_need_bytes(model.facts, parsed),
            available_bytes=host.available_bytes(),
            force=self._force,
        )
        for warning in (*warnings, *filter(None, [memory])):
            self._warn_once(f"{model.facts.path.name}: {warning}")

    def _launch(self, start: Start, argv: tuple[str, ...], model: Model) -> RunningEngine:
        name = start.id.replace("/", "_")
        return self._factory.start(
            argv,
            facts=model.facts,
            log_path=self._logs / f"{next(self._log_numbers):04d}_{name}.log",
            ready_timeout_s=self._load_deadline_s,
            trace=True,
        )

    def _warm_up(self, start: Start, server: Server) -> int:
        """Send the warm-up prompt and throw the answer away: a first request is many times slower.

        Returns:
            The server's number among the starts of the run.
        """
        begin_s = time.monotonic()
        prompt = server.client.tokenize(self._matrix.warmup, parse_special=False, add_special=True)
        request = CompletionRequest(prompt=prompt, n_predict=WARMUP_TOKENS, temperature=0.0, seed=1)
        guarded(
            server.engine,
            lambda: server.client.completion(request, timeout_s=server.engine.request_timeout_s),
            no_progress_s=self._matrix.hang_after_s,
        )
        server.logs.take()
        serial = next(self._serials)
        self._on_start(
            ServerStart(
                serial=serial,
                model=start.model,
                config=start.config,
                temperature=start.temperature,
                block=start.block,
                pass_=start.pass_,
                load_s=server.engine.load_s,
                warmup_s=time.monotonic() - begin_s,
            )
        )
        return serial

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)


def compose_argv(
    path: str | Path,
    model: ModelSpec,
    config: ConfigSpec,
    table_path: Path | None,
    vocabulary: Vocabulary,
) -> tuple[str, ...]:
    """Return llama-server's command line of a model and a config. Raises `EngineError` for wrong flags."""
    return command.server_argv(
        path,
        model_flags=shlex.split(model.flags),
        spec_types=config.types,
        config_flags=shlex.split(config.flags),
        table_path=table_path,
        vocabulary=vocabulary,
    )


def _anonymous_need_bytes(facts: ModelFacts, parsed: flags.Parsed) -> int:
    return anonymous_need_bytes(
        facts,
        n_ctx=parsed.get("ctx-size", 0) or facts.n_ctx_train,
        type_k=parsed.get("cache-type-k", "f16"),
        type_v=parsed.get("cache-type-v", "f16"),
        mmap=parsed.get("load-mode", "auto") in ("auto", "mmap", "mmap+mlock"),
        mtp="draft-mtp" in parsed.spec_types,
    )


def prompt_decodes(facts: ModelFacts, parsed: flags.Parsed) -> Callable[[int], int]:
    """Return how many decodes a prompt of so many tokens takes on a server of this command line."""
    windowed = facts.sliding_window is not None and not parsed.get("swa-full", False)
    stateful = facts.recurrent_layers > 0 or windowed
    return partial(
        decodes.prompt_decodes,
        n_batch=parsed.get("batch-size", 2048),
        n_ubatch=parsed.get("ubatch-size", 512),
        checkpoints=stateful and parsed.get("ctx-checkpoints", 32) != 0,
    )


def _against_measuring_rules(parsed: flags.Parsed) -> list[str]:
    """Flags that a user may set, though a measurement wants them otherwise."""
    return [
        f"--{key} {parsed.get(key, default)}: a measurement wants {wanted}, since {why}"
        for key, default, wanted, why in (
            ("parallel", 1, 1, "slots share the cores and some drafters' state"),
            ("cache-ram", 0, 0, "a prompt cache takes memory and can change greedy text"),
        )
        if parsed.get(key, default) != wanted
    ]
