"""Servers for cells: checked before they start, warmed up after it, replaced when they die."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from pytest_ngram.engine import command, decodes, flags, preflight
from pytest_ngram.engine.capabilities import observe
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.vocabulary import Vocabulary
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import ConfigSpec, MatrixSpec, ModelSpec
from pytest_ngram.measure import host
from pytest_ngram.measure.entry import Rest, enter
from pytest_ngram.measure.events import SILENT, Listener, Loading, Resting, WarmingUp, waiting
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.server import Kind, Server, Warn
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.memory import anonymous_need_bytes
from pytest_ngram.models.vocabulary import token_lists_differ_at
from pytest_ngram.record import Entry, ServerStart, WarmUp, pack_tokens
from pytest_ngram.table.price import Need

WARMUP_TOKENS = 16
# how long an answer other than a completion may take
_PATIENCE_S = 30.0
OnStart = Callable[[ServerStart], None]
# a table and the number of slots → what it needs of memory; None where it is no table
TableNeedOf = Callable[[Path, int], Need | None]


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
        table_need: predicts what a table needs of memory.
        on_start: called with each start that succeeded, warm-up included.
        warn: called with what the user should know.
        listener: hears of loads and warm-ups.
        rest: what is waited for before each server.
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
        table_need: TableNeedOf = lambda path, slots: None,
        on_start: OnStart = lambda start: None,
        warn: Warn = lambda text: None,
        listener: Listener = SILENT,
        rest: Rest | None = None,
    ) -> None:
        self._matrix = matrix
        self._models = models
        self._factory = factory
        self._logs = logs
        self._force = force
        self._load_deadline_s = load_deadline_s
        self._table_need = table_need
        self._on_start = on_start
        self._warn = warn
        self._listener = listener
        self._rest = rest or Rest()
        self._entry: Entry | None = None
        self._serials = itertools.count(first_serial)
        self._log_numbers = itertools.count(1)
        self._warned: set[str] = set()

    def serve(self, start: Start, table_path: Path | None) -> Server:
        """Start the server of a start and warm it up.

        Raises:
            ModelError, EngineError: found before the server starts, or by its end. Nothing is left running.
        """
        model = self._models.open(start.model)
        draft = self._models.open_draft(start.model, start.config)
        argv = self.argv(model, start, table_path, draft)
        self.check(model, argv, draft)
        config = self._matrix.configs[start.config]
        return Server(
            Kind(
                stateful=config.stateful,
                speculative=bool(config.types),
                prompt_decodes=prompt_decodes(model.facts, self._factory.vocabulary.parse(argv)),
                launch=lambda: self._launch(start, argv, model),
                warm_up=lambda server: self._warm_up(start, server),
                warn=self._warn,
                patience_s=min(_PATIENCE_S, self._matrix.hang_after_s),
                warn_once=self._warn_once,
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
                launch=lambda: self._launch(start, argv, model, to_tokenize=True),
                warm_up=lambda server: 0,
                warn=self._warn,
            )
        )

    def argv(
        self, model: Model, start: Start, table_path: Path | None, draft: Model | None = None
    ) -> tuple[str, ...]:
        """Return llama-server's command line of a start. Raises `EngineError` for flags that clash."""
        spec, config = self._matrix.models[start.model], self._matrix.configs[start.config]
        draft_path = draft.path if draft is not None else None
        vocabulary = self._factory.vocabulary
        return compose_argv(model.path, spec, config, table_path, vocabulary, draft_path=draft_path)

    def check(
        self, model: Model, argv: tuple[str, ...], draft: Model | None = None, *, measured: bool = True
    ) -> None:
        """Find, before a server starts, what would make it fail. Raises `ModelError` or `EngineError`.

        Only of a server that is to be measured is it told which flags a measurement wants otherwise.
        """
        parsed = self._factory.vocabulary.parse(argv)
        self._factory.check(parsed.spec_types, argv)
        against = _against_measuring_rules(parsed) if measured else []
        warnings = [*preflight.check(model.facts, parsed), *against]
        both = [model.facts]
        need_bytes = need_of_start_bytes(model.facts, parsed)
        if draft is not None:
            differ_at = token_lists_differ_at(model.facts, draft.facts, preflight.VOCAB_CHECK_FROM)
            preflight.check_draft(model.facts, draft.facts, differ_at)
            both.append(draft.facts)
            need_bytes += need_of_start_bytes(draft.facts, parsed, draft=True)
        memory = None
        if self._factory.choice.kind != "url":  # that server has its memory already, on whatever host
            memory = preflight.check_memory(
                model_bytes=paged_bytes(both, parsed),
                anonymous_need_bytes=need_bytes,
                available_bytes=host.available_bytes(),
                table=self._need_of_table(parsed),
                force=self._force,
            )
        for warning in (*warnings, *filter(None, [memory])):
            self._warn_once(f"{model.facts.path.name}: {warning}")

    def _need_of_table(self, parsed: flags.Parsed) -> Need | None:
        table = parsed.get("lookup-cache-static", "")
        return self._table_need(Path(table), parsed.get("parallel", 1)) if table else None

    def _launch(
        self, start: Start, argv: tuple[str, ...], model: Model, *, to_tokenize: bool = False
    ) -> RunningEngine:
        name = start.id.replace("/", "_")
        if not to_tokenize:
            self._enter(start)
        with waiting(self._listener, Loading(start.id, model.path.name, model.facts.size_bytes)):
            return self._factory.start(
                argv,
                facts=model.facts,
                log_path=self._logs / f"{next(self._log_numbers):04d}_{name}.log",
                ready_timeout_s=self._load_deadline_s,
                trace=True,
                to_tokenize=to_tokenize,
            )

    def _enter(self, start: Start) -> None:
        """Let the machine rest, and keep in which state the server meets it."""
        rests = self._rest.settle_s > 0 or self._rest.max_temp_c is not None
        with waiting(self._listener, Resting(start.id)) if rests else nullcontext():
            self._entry = enter(self._rest)
        if self._entry.gave_up is not None:
            self._warn(f"{start.id} starts on a machine that is too hot: {self._entry.gave_up}")

    def _warm_up(self, start: Start, server: Server) -> int:
        """Send the warm-up prompt and throw the answer away: a first request is many times slower.

        Returns:
            The server's number among the starts of the run.
        """
        begin_s = time.monotonic()
        prompt = server.client.tokenize(self._matrix.warmup, parse_special=False, add_special=True)
        request = CompletionRequest(prompt=prompt, n_predict=WARMUP_TOKENS, temperature=0.0, seed=1)
        with waiting(self._listener, WarmingUp(start.id)):
            result = guarded(
                server.engine,
                lambda: server.client.completion(request),
                no_progress_s=self._matrix.hang_after_s,
                cut=server.client.cut,
            )
        said = server.logs.take()
        server.saw(observe(server.client, result, said.lines if said is not None else None))
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
                warmup=WarmUp(
                    prompt=pack_tokens(prompt),
                    tokens=pack_tokens(result.tokens),
                    n_predict=request.n_predict,
                    stop=result.stop_type,
                ),
                entry=self._entry,
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
    *,
    draft_path: str | Path | None = None,
) -> tuple[str, ...]:
    """Return llama-server's command line of a model and a config. Raises `EngineError` for wrong flags."""
    return command.server_argv(
        path,
        model_flags=shlex.split(model.flags),
        spec_types=config.types,
        config_flags=shlex.split(config.flags),
        table_path=table_path,
        draft_model=draft_path,
        vocabulary=vocabulary,
    )


def need_of_start_bytes(facts: ModelFacts, parsed: flags.Parsed, *, draft: bool = False) -> int:
    """Return what a server must have for itself, a lower bound, for the model or for its draft model.

    The draft model's context is as long, and its cache has types of its own.
    """
    type_k, type_v = ("spec-draft-type-k", "spec-draft-type-v") if draft else ("cache-type-k", "cache-type-v")
    return anonymous_need_bytes(
        facts,
        n_ctx=parsed.get("ctx-size", 0) or facts.n_ctx_train,
        type_k=parsed.get(type_k, "f16"),
        type_v=parsed.get(type_v, "f16"),
        mmap=_is_mapped(parsed),
        mtp="draft-mtp" in parsed.spec_types and not draft,
    )


def _is_mapped(parsed: flags.Parsed) -> bool:
    return parsed.get("load-mode", "auto") in ("auto", "mmap", "mmap+mlock")


def paged_bytes(models: Iterable[ModelFacts], parsed: flags.Parsed) -> int:
    """What of the model files the kernel may page; nothing where they are read, or a GPU has a part."""
    mapped = _is_mapped(parsed) and parsed.values.get("n-gpu-layers", 0) == 0
    return sum(facts.size_bytes for facts in models) if mapped else 0


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
