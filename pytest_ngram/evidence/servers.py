"""Servers for evidence: not warmed up, so that nothing but the gate's own requests has been there."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from pytest_ngram.engine import command
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.vocabulary import Vocabulary
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.server import Kind, Server
from pytest_ngram.measure.servers import Servers, prompt_decodes

TableOf = Callable[[str, str], Path]


class Variant(msgspec.Struct, frozen=True):
    """A change to a config's command line: flags that take the place of what model and config say."""

    name: str = "plain"
    flags: tuple[str, ...] = ()


PLAIN = Variant()


class GateServers:
    """Starts servers of a matrix for the gates.

    Args:
        matrix: the decoded matrix.
        models: opens its models.
        factory: of the engine that the user chose; a URL is refused, since it cannot be started anew.
        servers: checks a command line against model and memory.
        table_of: model and table of the matrix → the file.
        logs: a folder for the servers' logs.
        load_deadline_s: how long a server may take until it is ready.
    """

    def __init__(
        self,
        matrix: MatrixSpec,
        models: Models,
        factory: Factory,
        servers: Servers,
        *,
        table_of: TableOf,
        logs: Path,
        load_deadline_s: float,
    ) -> None:
        self.matrix = matrix
        self.models = models
        self.factory = factory
        self._servers = servers
        self._table_of = table_of
        self.logs = logs
        self._load_deadline_s = load_deadline_s
        self._numbers = itertools.count(1)

    def start(self, model_name: str, config: str, variant: Variant = PLAIN) -> Server:
        """Start a fresh server of a model and config. Raises `NgramError`; nothing is left running."""
        model = self.models.open(model_name)
        argv = self.argv(model_name, config, variant)
        spec = self.matrix.configs[config]
        name = f"{model_name}_{config}_{variant.name}"
        draft = self.models.open_draft(model_name, config)
        return self.start_argv(model, argv, name, speculative=bool(spec.types), draft=draft)

    def start_argv(
        self, model: Model, argv: tuple[str, ...], name: str, *, speculative: bool, draft: Model | None = None
    ) -> Server:
        """Start a fresh server of a command line; `name` goes into the log's name."""
        if self.factory.choice.url is not None:
            raise _not_fresh(self.factory.choice.url)
        self._servers.check(model, argv, draft, measured=False)
        return Server(
            Kind(
                stateful=False,
                speculative=speculative,
                prompt_decodes=prompt_decodes(model.facts, self.factory.vocabulary.parse(argv)),
                launch=partial(self._launch, argv, name, model),
                warm_up=lambda server: 0,
                warn=lambda text: None,
            )
        )

    def argv(self, model_name: str, config: str, variant: Variant = PLAIN) -> tuple[str, ...]:
        """Return llama-server's command line. Raises `EngineError` for flags that the engine refuses."""
        spec, known = self.matrix.configs[config], self.factory.vocabulary
        table = self._table_of(model_name, spec.table) if spec.table is not None else None
        model_flags = _without(known, shlex.split(self.matrix.models[model_name].flags), variant.flags)
        config_flags = _without(known, shlex.split(spec.flags), variant.flags)
        draft = self.models.open_draft(model_name, config)
        return command.server_argv(
            self.models.open(model_name).path,
            model_flags=model_flags,
            spec_types=spec.types,
            config_flags=[*config_flags, *variant.flags],
            table_path=table,
            draft_model=draft.path if draft is not None else None,
            vocabulary=known,
        )

    def log_path(self, name: str) -> Path:
        """Return a new log's path. Workers share the folder, so the process is part of the name."""
        return self.logs / f"{os.getpid()}-{next(self._numbers):04d}_{name.replace('/', '_')}.log"

    def _launch(self, argv: tuple[str, ...], name: str, model: Model) -> RunningEngine:
        return self.factory.start(
            argv,
            facts=model.facts,
            log_path=self.log_path(name),
            ready_timeout_s=self._load_deadline_s,
            trace=True,
        )


def _without(known: Vocabulary, words: list[str], taken: tuple[str, ...]) -> list[str]:
    """Return a command line without the flags that others take the place of, in whatever spelling."""
    replaced = known.group(taken).keys()
    return [word for key, group in known.group(words).items() if key not in replaced for word in group]


def _not_fresh(url: str) -> EngineError:
    return EngineError(
        "gates need servers that they start themselves",
        outcome="refused",
        checked=[f"{url} runs already, and what it was asked before is not known"],
        fix="name a llama-server binary with --llama-server, or leave it out for the embedded engine",
    )
