"""Servers for the tests of this folder: the scripted one, and the embedded engine on a small model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.engine import process
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

FAULTY = Path(__file__).with_name("faulty_server.py")
Starter = Callable[..., process.EngineProcess]


@pytest.fixture(scope="session")
def model_path(session_cache: Path) -> Path:
    """The hand-built model, or the file that PYTEST_NGRAM_TEST_MODEL names."""
    given = os.environ.get("PYTEST_NGRAM_TEST_MODEL")
    return Path(given) if given else generate(HandBuiltSpec(), session_cache / "models")


@pytest.fixture
def start_faulty(tmp_path: Path) -> Iterator[Starter]:
    """Start the scripted server; every one started is stopped after the test."""
    servers: list[process.EngineProcess] = []

    def start(script: str, **options: Any) -> process.EngineProcess:
        command = (sys.executable, str(FAULTY), "--script", script)
        options.setdefault("ready_timeout_s", 10.0)
        servers.append(
            process.start(["--port", "0"], log_path=tmp_path / "server.log", command=command, **options)
        )
        return servers[-1]

    yield start
    for server in servers:
        server.stop(grace_s=0.2)


@pytest.fixture
def start_embedded(model_path: Path, tmp_path: Path) -> Iterator[Starter]:
    """Start the embedded engine on the small model with `-t 1`; stopped after the test."""
    servers: list[process.EngineProcess] = []

    def start(
        *config_flags: str, spec: str = "", trace: bool = False, **options: Any
    ) -> process.EngineProcess:
        argv = server_argv(
            model_path,
            model_flags=["-t", "1"],
            spec_types=spec.split(",") if spec else [],
            config_flags=config_flags,
            **options,
        )
        log_path = tmp_path / f"server-{len(servers)}.log"
        servers.append(process.start(argv, log_path=log_path, trace=trace, ready_timeout_s=30))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def embedded(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.EngineProcess]:
    """One embedded server with the measuring defaults, shared by tests that only ask."""
    folder = tmp_path_factory.mktemp("embedded")
    argv = server_argv(model_path, model_flags=["-t", "1"])
    with process.start(argv, log_path=folder / "server.log", cache_dir=folder / "cache") as server:
        yield server


@pytest.fixture
def client(embedded: process.EngineProcess) -> Iterator[Client]:
    with Client(embedded.url) as talking:
        yield talking
