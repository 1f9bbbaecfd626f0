"""Each kind of engine is started the same way, and answers the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import EngineError
from pytest_ngram.models.gguf_file import inspect

REQUEST = CompletionRequest(prompt=(300, 301), n_predict=8, temperature=0, seed=1)


def test_embedded_and_url_are_one_protocol(embedded: EngineProcess, model_path: Path, tmp_path: Path) -> None:
    """The same command line gives the same tokens from the embedded engine and from a server at a URL."""
    argv = server_argv(model_path, model_flags=["-t", "1"])
    said: list[str] = []
    tokens = []
    for named in (None, embedded.url):
        factory = Factory(choose(named), warn=said.append)
        factory.check([], argv)
        engine = factory.start(argv, log_path=tmp_path / "server.log", facts=inspect(model_path))
        with Client(engine.url) as client:
            tokens.append(client.completion(REQUEST).tokens)
        engine.stop()
    assert tokens[0] == tokens[1]
    assert embedded.alive()
    assert ["-t 1" in text for text in said] == [True]


def test_what_is_not_offered_is_said_before_a_start(tmp_path: Path) -> None:
    """A type that the engine does not have is refused without a process."""
    factory = Factory(choose(None))
    with pytest.raises(EngineError, match="ngram-suffix is not offered by this build"):
        factory.check(["ngram-suffix"], [])
    assert "ngram-cache" in factory.build.spec_types


def test_flags_are_those_of_the_engine(embedded: EngineProcess) -> None:
    """The embedded engine refuses what it has no field for; of a URL any flag may be wanted."""
    with pytest.raises(EngineError, match="--device"):
        Factory(choose(None)).vocabulary.group(["--device", "CUDA0"])
    assert Factory(choose(embedded.url)).vocabulary.group(["--device", "CUDA0"])["device"][1] == "CUDA0"
