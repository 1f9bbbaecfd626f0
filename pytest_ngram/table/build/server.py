"""The server that `table build` tokenizes with: of a model file, or one that runs already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.engine import api_key, compare, url
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.errors import EngineError, ModelError, TableError
from pytest_ngram.measure.server import Kind, Server
from pytest_ngram.models.gguf_file import ModelFacts, inspect

# Nothing is generated: a short context, and weights that stay in the file, neither copied nor tried out.
_FLAGS = ("-c", "512", "--no-warmup", "--no-repack")
# One text may have many MB; a build that tokenizes 1 MB/s is waited for.
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Of what model the tokens are. `facts` is None where its file is on another host."""

    n_vocab: int
    facts: ModelFacts | None

    @property
    def sha256(self) -> str | None:
        """Of its list of tokens; None where that is not known."""
        return None if self.facts is None else self.facts.vocab_sha256


def vocabulary_of(model: Path | None, factory: Factory) -> Vocabulary:
    """Find out the vocabulary, from the model's file wherever that can be read. Starts nothing.

    Args:
        model: the GGUF file; None for a server at a URL that is to tell by itself.
        factory: of the engine.

    Raises:
        ModelError: the file is missing or damaged.
        EngineError: nobody answers at the URL.
        TableError: the server does not say how large its vocabulary is.
    """
    if model is not None:
        facts = inspect(model)
        return Vocabulary(facts.n_vocab, facts)
    assert factory.choice.url is not None  # noqa: S101 - without a model file there has to be a server
    seen = url.connect(factory.choice.url, key=api_key.of_environment()).seen
    try:
        # a server on this host names a file that can be read here
        facts = inspect(Path(seen.model_path))
        compare.check_model(seen.model_path, seen, n_vocab=facts.n_vocab, tensor_bytes=facts.tensor_bytes)
    except (ModelError, EngineError):
        pass
    else:
        return Vocabulary(facts.n_vocab, facts)
    if seen.n_vocab is None:
        raise TableError(
            "the server does not say how large its vocabulary is",
            checked=[f"{factory.choice.url}/v1/models: no meta.n_vocab", f"no file {seen.model_path} here"],
            fix="name a copy of its model file too, with --model",
        )
    return Vocabulary(seen.n_vocab, None)


def tokenizing_server(
    vocabulary: Vocabulary, factory: Factory, *, log_path: Path, say: Callable[[str], None]
) -> Server:
    """Start a server to tokenize with, or take the one at the URL.

    Args:
        vocabulary: of the model.
        factory: of the engine.
        log_path: where a server of our own writes.
        say: called with what is begun.

    Raises:
        EngineError: it cannot be started, or another model is at the URL.
    """

    def launch() -> RunningEngine:
        facts = vocabulary.facts
        if factory.choice.url is not None:
            return _connect(factory.choice.url, facts)
        assert facts is not None  # noqa: S101 - see `vocabulary_of`
        say(f"starting a server with {facts.path.name} to tokenize")
        known = factory.vocabulary
        argv = server_argv(facts.path, model_flags=known.offered(_FLAGS), vocabulary=known)
        return factory.start(argv, facts=facts, log_path=log_path, trace=False, to_tokenize=True)

    return Server(
        Kind(
            stateful=False,
            speculative=False,
            prompt_decodes=lambda prompt_n: 0,
            launch=launch,
            warm_up=_uncounted,
            warn=say,
            patience_s=_PATIENCE_S,
        )
    )


def _connect(address: str, facts: ModelFacts | None) -> RunningEngine:
    engine = url.connect(address, key=api_key.of_environment())
    if facts is not None:
        try:
            compare.check_model(
                str(facts.path), engine.seen, n_vocab=facts.n_vocab, tensor_bytes=facts.tensor_bytes
            )
        except EngineError as error:
            fix = "name the file of the model that the server has loaded, or leave --model out"
            raise EngineError(error.cause, outcome=error.outcome, checked=error.checked, fix=fix) from error
    return engine


def _uncounted(server: Server) -> int:
    """Nothing that it generates is counted, so it need not have `/metrics`."""
    server.capabilities["metrics"] = False
    return 0
