"""The tables that a matrix names: ready files checked, others built with the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_ngram.corpus.report import said
from pytest_ngram.matrix.spec import TableSpec
from pytest_ngram.measure import sources
from pytest_ngram.measure.events import SILENT, Building, Listener, waiting
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.setup import Setup
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.record import Leakage
from pytest_ngram.table.build.builder import Tokenizer, Wanted, build_table
from pytest_ngram.table.build.lazy import LazyTokenizer
from pytest_ngram.table.build.leaks import leakage_of
from pytest_ngram.table.build.load import LoadedTable, load_table
from pytest_ngram.table.build.manifest import TableParams
from pytest_ngram.table.build.token_cache import TokenCache
from pytest_ngram.table.build.tokens import OnProgress, Progress


class Tables:
    """Gives the tables of a matrix, each once per model.

    Args:
        setup: the matrix and where its paths start.
        models: opens its models.
        servers: starts a server to tokenize with, if a table has to be built.
        cache: the folder of built tables.
        token_cache: opens what is known of a model's tokens.
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
        token_cache: Callable[[ModelFacts], TokenCache],
        warn: Callable[[str], None],
        listener: Listener = SILENT,
    ) -> None:
        self._setup = setup
        self._models = models
        self._servers = servers
        self._cache = cache
        self._token_cache = token_cache
        self._warn = warn
        self._listener = listener
        self._loaded: dict[tuple[str, str], LoadedTable] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._leakage: dict[tuple[str, str], Mapping[str, Leakage] | None] = {}

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
            path = self._path(key, model, spec)
            self._loaded[key] = load_table(path, model.facts.vocab_sha256, model.facts.n_vocab)
            for note in (*self._loaded[key].notes, *_skipped(self._loaded[key])):
                self._warn(note)
        return self._loaded[key]

    def leakage(self, model_name: str, table_name: str) -> Mapping[str, Leakage] | None:
        """Return by prompt id what of the model's prompts is in the corpus of a table; None for a ready file.

        Raises:
            OptionError: the matrix has no such table.
            CorpusError, TableError, EngineError: the table cannot be built, or the prompts not be tokenized.
        """
        key = (model_name, table_name)
        if key not in self._leakage:
            spec = self._setup.table_spec(table_name)
            self._leakage[key] = (
                self._look(key, self._models.open(model_name), spec) if spec.corpora else None
            )
        return self._leakage[key]

    def _look(self, key: tuple[str, str], model: Model, spec: TableSpec) -> Mapping[str, Leakage]:
        """Build the table if need be, and look for the prompts, with one tokenizer for both."""
        wanted = wanted_of(spec, self._setup.base)
        with self._building(key, model) as (tokenizer, on_progress):
            if key not in self._paths:
                built = build_table(wanted, tokenizer, cache_dir=self._cache, on_progress=on_progress)
                self._paths[key] = built.path
            prompts = self._setup.words_of(key[0])
            return leakage_of(prompts, wanted, tokenizer, self._paths[key], on_progress=on_progress)

    def _path(self, key: tuple[str, str], model: Model, spec: TableSpec) -> Path:
        if spec.file is not None:
            return sources.locate(spec.file, self._setup.base)
        if key not in self._paths:
            wanted = wanted_of(spec, self._setup.base)
            with self._building(key, model) as (tokenizer, on_progress):
                built = build_table(wanted, tokenizer, cache_dir=self._cache, on_progress=on_progress)
            self._paths[key] = built.path
        return self._paths[key]

    @contextmanager
    def _building(self, key: tuple[str, str], model: Model) -> Iterator[tuple[Tokenizer, OnProgress]]:
        """Yield what a table is built with; the listener hears of it."""
        with (
            waiting(self._listener, Building(key[1], key[0])) as building,
            self.tokenizer(model_name=key[0], facts=model.facts) as tokenizer,
        ):

            def on_progress(done: Progress) -> None:
                self._listener.went_on(
                    replace(
                        building, messages=done.messages, of_messages=done.of_messages, tokens=done.tokens
                    )
                )

            yield tokenizer, on_progress

    @contextmanager
    def tokenizer(self, model_name: str, facts: ModelFacts) -> Iterator[Tokenizer]:
        """Yield the tokenizer of a model, with the tokens that are known. Its server starts with a text."""
        with (
            LazyTokenizer(lambda: self._servers.tokenizer(model_name)) as tokenize,
            self._token_cache(facts) as cache,
        ):
            yield Tokenizer(tokenize, facts.vocab_sha256, facts.n_vocab, cache)
            if cache.trouble is not None:
                self._warn(cache.trouble)


def wanted_of(spec: TableSpec, base: Path) -> Wanted:
    """Return what a table of the matrix is made of. Raises `ModelError` for a package that is missing."""
    return Wanted(
        paths=tuple(sources.locate(source, base) for source in spec.corpora),
        selection=sources.selection_of(spec),
        params=_params(spec),
        on_bad=spec.on_bad_line,
    )


def _skipped(loaded: LoadedTable) -> list[str]:
    """Rows of the corpus that could not be used are told at every run, not only when the table is built."""
    rejected = loaded.manifest.rejected if loaded.manifest is not None else {}
    return (
        [f"the corpus of {loaded.path.name} has rows that cannot be used: {said(rejected)}"]
        if rejected
        else []
    )


def _params(spec: TableSpec) -> TableParams:
    return TableParams(
        top_k=spec.top_k,
        min_count=spec.min_count,
        min_share=spec.min_share,
        min_total=spec.min_total,
        min_top_share=spec.min_top_share,
    )
