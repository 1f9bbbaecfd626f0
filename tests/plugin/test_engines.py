"""Cells on engines of every kind: what is recorded, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.engine import process
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options import cache_folder
from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project


def records_of(data: dict[str, Any]) -> list[Any]:
    return [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that becomes a real llama.cpp server when it is started with llama-server's flags."""
    path = tmp_path / "llama-server"
    # it lists no flags, so it is known for a llama-server by its version
    version = "[ \"$1\" = --version ] && echo 'version: 11549 (unknown)' && exit"
    path.write_text(f'#!/bin/sh\n{version}\nexec {sys.executable} -m pytest_ngram.engine.embedded "$@"\n')
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


def test_a_path_behind_a_space_moves_nothing(project: Project, program: Path) -> None:
    """Without an ini file pytest takes it for a place of tests; matrix and journal stay the project's."""
    assert not program.is_relative_to(project.path)
    (record,) = records_of(project.measure("-k", "mtp1 and word-en", "--llama-server", str(program)))
    assert record.cell.model == "tiny"
    assert project.journal.is_file()


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


@pytest.fixture
def drafting(tmp_path: Path) -> Iterator[str]:
    """The URL of a server that somebody else started with MTP, two tokens a draft."""
    model = generate(HandBuiltSpec(target=0.7), cache_folder() / "models")
    argv = server_argv(
        model, model_flags=["-t", "1"], spec_types=["draft-mtp"], config_flags=["--spec-draft-n-max", "2"]
    )
    with process.start(argv, log_path=tmp_path / "other.log") as server:
        yield server.url


def test_what_a_server_does_not_tell_can_be_told(project: Project, drafting: str) -> None:
    """n_max stands in no answer: it is refused as unknown, taken at the user's word, and recorded."""
    project.edit("--spec-draft-n-max 1", "--spec-draft-n-max 2")
    options = ("-k", "mtp1", f"--llama-server={drafting}")
    (failed, _) = run_from_builtins(project.measure(*options, exit_code=1)["ngram"]).failed_cells
    assert "no answer of the server tells" in str(failed.outcome.reason)
    assert "--llama-server-flags" in str(failed.outcome.reason)
    told = "--llama-server-flags=-t 1 --spec-draft-n-max 2"
    records = records_of(project.measure(*options, told))
    assert len(records) == 2
    assert all(record.engine.argv[-2:] == ("--spec-draft-n-max", "2") for record in records)
    assert all(record.rounds[0].drafted > 0 for record in records)
    (failed, _) = run_from_builtins(
        project.measure(*options, "--llama-server-flags=--spec-draft-n-max 3", exit_code=1)["ngram"]
    ).failed_cells
    assert "--spec-draft-n-max 3 is said to be set" in str(failed.outcome.reason)


def test_a_config_on_defaults_is_told_too(project: Project, drafting: str) -> None:
    """A server with n_max 2 is not taken for one on llama.cpp's defaults, and the way out can be followed."""
    project.edit(", flags: --spec-draft-n-max 1", "")
    options = ("-k", "mtp1 and word-en", f"--llama-server={drafting}")
    for told in ([], ["--llama-server-flags=-t 1 --spec-draft-n-max 2"]):
        (failed,) = run_from_builtins(project.measure(*options, *told, exit_code=1)["ngram"]).failed_cells
        assert failed.outcome.status == "refused"
        assert ("--spec-type draft-mtp'" in str(failed.outcome.reason)) == (not told)
        assert ("--spec-draft-n-max 2 is said to be set" in str(failed.outcome.reason)) == bool(told)
    (record,) = records_of(project.measure(*options, "--llama-server-flags=-t 1 --spec-type draft-mtp"))
    assert record.rounds[0].drafted > 0


def test_a_journal_of_another_server_is_not_gone_on_with(
    project: Project, running: str, tmp_path: Path
) -> None:
    """Cells of two servers at two ports, of one build, do not stand in one row."""
    project.run("-k", "none and word-en", f"--llama-server={running}", "--llama-server-flags=-t 1")
    model = generate(HandBuiltSpec(target=0.7), cache_folder() / "models")
    argv = server_argv(model, model_flags=["-t", "1"])
    resume = f"--ngram-resume={project.journal}"
    with process.start(argv, log_path=tmp_path / "second.log") as server:
        for url, told, said in (
            (server.url, "-t 1", f"*now --port {server.url.rpartition(':')[2]}*"),
            (running, "", "*then --threads 1, now no --threads*"),
        ):
            result = project.run(
                "-k", "none", f"--llama-server={url}", f"--llama-server-flags={told}", resume
            )
            result.stdout.fnmatch_lines(["*measured by another engine*", said])
    records = records_of(
        project.measure("-k", "none", f"--llama-server={running}", "--llama-server-flags=--threads 1", resume)
    )
    assert len(records) == 4


@pytest.mark.parametrize(
    "told",
    [
        "--llama-server-flags=-t 1 --api-key=sekret1",
        "--llama-server-flags=--api_key 'sekret1' -t 1",
        "--llama-server-flags=-t 1 --api-key-file /home/sekret1",
        "--llama-server-flags=-t 1 --hf-token sekret1",
        "--llama-server=http://us3r:sekret1@127.0.0.1:9",
        "--llama-server=http://:sekret1@127.0.0.1:9",
    ],
)
def test_a_secret_that_is_given_is_neither_printed_nor_kept(
    project: Project, running: str, told: str
) -> None:
    """It is refused; and neither that, nor the command that is printed to go on, nor a file shows it."""
    server = [] if "llama-server=" in told else [f"--llama-server={running}"]
    result = project.run("-k", "none and word-en", *server, told, "--benchmark-json=run.json", "-vv")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*EngineError: *", "*to do: *"])
    assert ("--ngram-resume=" in result.stdout.str()) == bool(server)
    assert "sekret1" not in result.stdout.str() + result.stderr.str()
    files = [path for path in project.path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sekret1" in path.read_bytes()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--llama-server-flags=-t 1"], "*is for a server at a URL*"),
        (["--llama-server=http://127.0.0.1:9", "--llama-server-flags=-a 'x"], "*cannot be read*quotation*"),
    ],
)
def test_flags_that_say_nothing_are_refused(project: Project, options: list[str], said: str) -> None:
    """Flags of a server that is started here belong into the matrix; an open quote is told."""
    result = project.run("-k", "mtp1", *options)
    assert result.ret != 0
    result.stdout.fnmatch_lines([said])


def test_key_of_a_server_stays_secret(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with an API key is measured by the key of the environment, which is written nowhere."""
    model = generate(HandBuiltSpec(target=0.7), cache_folder() / "models")
    script = Path(__file__).parents[1] / "process" / "keyed_server.py"
    argv = server_argv(model, model_flags=["-t", "1"])
    monkeypatch.setenv("LLAMA_API_KEY", "s3cret")
    command = [sys.executable, str(script), "s3cret", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            named = f"--llama-server={running.stdout.readline().strip()}"
            data = project.measure("-k", "none", named, "--log-level=DEBUG")
            monkeypatch.setenv("LLAMA_API_KEY", "0ther-s3cret")
            refused = project.run("-k", "none", named, "--showlocals", "-vv", "--log-level=DEBUG")
        finally:
            running.kill()
    assert len(records_of(data)) == 4
    assert refused.ret == 1
    refused.stdout.fnmatch_lines(["*set the key that the server was started with*"])
    written = [path for path in project.path.rglob("*") if path.is_file()]
    assert project.path / "run.json" in written
    assert not [path for path in written if b"s3cret" in path.read_bytes()]
    assert "s3cret" not in refused.stdout.str() + refused.stderr.str()


@pytest.mark.parametrize("named", ["/nowhere/llama-server", "no-such-program", "http://127.0.0.1:9"])
def test_an_engine_that_is_not_there_is_told(project: Project, named: str) -> None:
    """The error names what was looked for, and nothing looks like a result."""
    result = project.run("-k", "mtp1", f"--llama-server={named}")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*EngineError: *", "*to do: *"])
    assert "passed" not in result.stdout.str()
