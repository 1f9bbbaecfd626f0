"""Cells on engines of every kind: what is recorded, and what is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.engine import process
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options import cache_folder
from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Project


def records_of(data: dict[str, Any]) -> list[Any]:
    return [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that becomes a real llama.cpp server when it is started with llama-server's flags."""
    path = tmp_path / "llama-server"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest_ngram.engine.embedded "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def running(tmp_path: Path) -> Iterator[str]:
    """The URL of a server that somebody else started, without speculation."""
    model = generate(HandBuiltSpec(target=0.7), cache_folder() / "models")
    argv = server_argv(model, model_flags=["-t", "1"])
    with process.start(argv, log_path=tmp_path / "other.log") as server:
        yield server.url


def test_cells_run_on_a_binary(project: Project, program: Path) -> None:
    """A program on disk is measured like the embedded engine, and the record says which it was."""
    data = project.measure("-k", "none or mtp1", f"--llama-server={program}", "--engine-label=mine")
    records = records_of(data)
    assert len(records) == 6
    assert {record.engine.kind for record in records} == {"binary"}
    assert {record.engine.label for record in records} == {"mine"}
    assert len({record.engine.binary_sha256 for record in records}) == 1
    assert all(record.rounds[0].drafted > 0 for record in records if record.cell.config == "mtp1")


@pytest.mark.parametrize("where", ["environment", "ini"])
def test_the_engine_can_be_named_elsewhere(
    project: Project, program: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The environment variable and the ini file name the engine as the option does."""
    if where == "environment":
        monkeypatch.setenv("PYTEST_NGRAM_LLAMA_SERVER", str(program))
    else:
        (project.path / "pytest.ini").write_text(f"[pytest]\nllama_server = {program}\n")
    (record,) = records_of(project.measure("-k", "mtp1 and word-en"))
    assert record.engine.kind == "binary"


def test_a_server_at_a_url_is_measured_as_it_is(project: Project, running: str) -> None:
    """What it was started for is measured; a config that needs other flags is refused with the reason."""
    data = project.measure("-k", "none or mtp1", f"--llama-server={running}", exit_code=1)
    assert {record.cell.config for record in records_of(data)} == {"none"}
    assert {record.engine.kind for record in records_of(data)} == {"url"}
    failed = run_from_builtins(data["ngram"]).failed_cells
    assert {record.cell.config for record in failed} == {"mtp1"}
    assert {record.outcome.status for record in failed} == {"refused"}
    assert "draft-mtp" in str(failed[0].outcome.reason)


@pytest.mark.parametrize("named", ["/nowhere/llama-server", "no-such-program", "http://127.0.0.1:9"])
def test_an_engine_that_is_not_there_is_told(project: Project, named: str) -> None:
    """The error names what was looked for, and nothing looks like a result."""
    result = project.run("-k", "mtp1", f"--llama-server={named}")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*EngineError: *", "*to do: *"])
    assert "passed" not in result.stdout.str()
