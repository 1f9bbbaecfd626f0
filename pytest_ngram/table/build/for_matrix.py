"""The tables that a matrix names: ready files checked, others built with the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_ngram.matrix.spec import TableSpec
from pytest_ngram.measure import sources
from pytest_ngram.measure.events import SILENT, Building, Listener, waiting
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.setup import Setup
from pytest_ngram.table.build.builder import build_table
from pytest_ngram.table.build.load import LoadedTable, load_table
from pytest_ngram.table.build.manifest import TableParams


class Tables:
    """Gives the tables of a matrix, each once per model.

    Args:
        setup: the matrix and where its paths start.
        models: opens its models.
        servers: starts a server to tokenize with, if a table has to be built.
        cache: the folder of built tables.
        warn: called with what a ready table's check could not make sure of.
        listener: hears of each table that is built.
    """

    def __init__(
        self,
        setup: Setup,
        models: Models,
        servers: Servers,
        cache: Path,
        *,
        warn: Callable[[str], None],
        listener: Listener = SILENT,
    ) -> None:
        self._setup = setup
        self._models = models
        self._servers = servers
        self._cache = cache
        self._warn = warn
        self._listener = listener
        self._loaded: dict[tuple[str, str], LoadedTable] = {}

    def get(self, model_name: str, table_name: str) -> LoadedTable:
        """Return a table of the matrix for a model.

        Raises:
            OptionError: the matrix has no such table.
            CorpusError, TableError, EngineError: it cannot be built, or is not fit for the model.
        """
        key = (model_name, table_name)
        if key not in self._loaded:
            spec = self._setup.table_spec(table_name)
            model = self._models.open(model_name)
            with waiting(self._listener, Building(table_name, model_name)) as building:
                path = self._path(building, model, spec)
            self._loaded[key] = load_table(path, model.facts.vocab_sha256, model.facts.n_vocab)
            for note in (*self._loaded[key].notes, *_skipped(self._loaded[key])):
                self._warn(note)
        return self._loaded[key]

    def _path(self, building: Building, model: Model, spec: TableSpec) -> Path:
        if spec.file is not None:
            return sources.locate(spec.file, self._setup.base)
        assert spec.corpus is not None  # noqa: S101 - the matrix has exactly one of the two
        with _LazyTokenizer(lambda: self._servers.tokenizer(building.model)) as tokenizer:

            def on_progress(messages: int, of_messages: int) -> None:
                self._listener.went_on(
                    replace(building, messages=messages, of_messages=of_messages, tokens=tokenizer.tokens)
                )

            return build_table(
                sources.locate(spec.corpus, self._setup.base),
                tokenize=tokenizer,
                vocab_sha256=model.facts.vocab_sha256,
                n_vocab=model.facts.n_vocab,
                cache_dir=self._cache,
                params=_params(spec),
                on_bad=spec.on_bad_line,
                on_progress=on_progress,
            ).path


def _skipped(loaded: LoadedTable) -> list[str]:
    """Lines of the corpus that could not be used are told at every run, not only when the table is built."""
    skipped = loaded.manifest.skipped if loaded.manifest is not None else {}
    if not skipped:
        return []
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    return [f"the corpus of {loaded.path.name} has lines that were left out: {reasons}"]


class _LazyTokenizer:
    """Text to ids through `/tokenize`. The first text starts the server, so a cached table starts none."""

    def __init__(self, start: Callable[[], Server]) -> None:
        self._start = start
        self._server: Server | None = None
        self.tokens = 0

    def __enter__(self) -> _LazyTokenizer:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.stop()

    def __call__(self, text: str) -> list[int]:
        if self._server is None:
            self._server = self._start()
        # control tokens that somebody wrote in a chat are text there
        with self._server.failing_fast():
            ids = list(self._server.client.tokenize(text, parse_special=False, add_special=False))
        self.tokens += len(ids)
        return ids


def _params(spec: TableSpec) -> TableParams:
    return TableParams(
        top_k=spec.top_k,
        min_count=spec.min_count,
        min_share=spec.min_share,
        min_total=spec.min_total,
        min_top_share=spec.min_top_share,
        roles=spec.roles,
    )
