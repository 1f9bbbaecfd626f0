"""Interrupted runs: nothing is left running, nothing measured is lost, and the rest can be measured."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_ngram.measure.journal import read

if TYPE_CHECKING:
    from conftest import Project

Wait = Callable[..., None]


def start(project: Project, *options: str) -> subprocess.Popen[bytes]:
    command = project.command(*options)
    with (project.path / "out.txt").open("wb") as out:
        return subprocess.Popen(
            command, cwd=project.path, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def cells_measured(project: Project) -> int:
    journals = list((project.path / ".ngram").glob("journal-*.jsonl"))
    return journals[0].read_bytes().count(b'"kind":"cell"') if journals else 0


def children(pid: int) -> list[int]:
    found = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    assert found, "a server should be running"
    return found


@pytest.fixture
def long_project(project: Project) -> Project:
    """Cells that take long enough to be interrupted."""
    project.edit("n_predict: 48", "n_predict: 2000")
    project.edit("blocks: 1", "blocks: 3")
    return project


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, None), (signal.SIGKILL, None)]
)
def test_an_interrupted_run_leaves_no_process_and_can_go_on(
    long_project: Project, number: signal.Signals, code: int | None, wait_for: Wait, assert_gone: Wait
) -> None:
    """Ctrl-C, a polite end, a kill: no server is left, nothing measured is lost, resume completes it."""
    process = start(long_project, "-k", "none or mtp1")
    wait_for(lambda: cells_measured(long_project) >= 3, (long_project.path / "out.txt").read_text)
    servers = children(process.pid)
    os.kill(process.pid, number)
    process.wait(timeout=60)
    assert_gone(*servers)
    if code is not None:
        assert process.returncode == code
        assert "not measured, 0 failed; to measure them now:" in (long_project.path / "out.txt").read_text()
    measured = len(read(long_project.journal).cells)
    assert 3 <= measured < 18

    data = long_project.measure("-k", "none or mtp1", f"--ngram-resume={long_project.journal}")
    run = data["ngram"]["run"]
    assert len(data["benchmarks"]) == run["planned_cells"] == run["measured_cells"] == 18
    assert run["resumed_cells"] == measured
    assert len(read(long_project.journal).cells) == 18


def test_a_whole_journal_needs_no_server(project: Project) -> None:
    """Resuming a run that was complete writes the same numbers again and starts nothing."""
    first = project.measure("-k", "mtp1")
    logs = set((project.path / ".ngram").rglob("*.log"))
    again = project.measure("-k", "mtp1", f"--ngram-resume={project.journal}")
    assert [b["extra_info"]["ngram"]["rounds"] for b in again["benchmarks"]] == [
        b["extra_info"]["ngram"]["rounds"] for b in first["benchmarks"]
    ]
    assert [b["stats"]["mean"] for b in again["benchmarks"]] == pytest.approx(
        [b["stats"]["mean"] for b in first["benchmarks"]]
    )
    assert again["ngram"]["prompts"] == first["ngram"]["prompts"]
    assert set((project.path / ".ngram").rglob("*.log")) == logs


def test_a_journal_of_another_matrix_is_refused(project: Project) -> None:
    """Results of one question are not mixed with those of another."""
    project.run("-k", "mtp1 and word-en")
    project.edit("n_predict: 48", "n_predict: 49")
    result = project.run(f"--ngram-resume={project.journal}")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*the journal is of another run: matrix_sha256 differ*"])


def test_a_journal_of_another_model_file_is_refused(project: Project) -> None:
    """Cells measured on one file do not stand beside cells of another."""
    project.run("-k", "mtp1 and word-en")
    journal = project.journal
    text = journal.read_text()
    sha256 = text.split('"sha256":"')[1].split('"')[0]
    journal.write_text(text.replace(sha256, "0" * 64))
    result = project.run("-k", "mtp1", f"--ngram-resume={journal}")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*measured on another model file*"])


def test_a_journal_of_another_engine_is_refused(project: Project) -> None:
    """Cells of one build do not stand beside cells of another."""
    project.run("-k", "mtp1 and word-en")
    journal = project.journal
    text = journal.read_text()
    version = text.split('"package":"xllamacpp","version":"')[1].split('"')[0]
    journal.write_text(text.replace(f'"version":"{version}"', '"version":"2020.1.1"'))
    result = project.run("-k", "mtp1", f"--ngram-resume={journal}")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*measured by another engine*",
            "*then embedded xllamacpp 2020.1.1 *",
            f"*now embedded xllamacpp {version} *",
        ]
    )


@pytest.mark.parametrize("name", ["nowhere.jsonl", "bench/matrix.yaml"])
def test_what_is_no_journal_is_refused(project: Project, name: str) -> None:
    """A missing file, or a file that is something else, stops the run before anything is measured."""
    result = project.run(f"--ngram-resume={project.path / name}")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "INTERNALERROR" not in result.stderr.str() + result.stdout.str()


def test_a_failing_test_leaves_no_process(project: Project, tmp_path: Path) -> None:
    """A test that fails while it holds a server does not leave it behind."""
    pids = project.path / "pids"
    (project.path / "test_fails.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.mark.parametrize('llama_server', ['tiny/none'], indirect=True)\n"
        "def test_fails(llama_server):\n"
        f"    pathlib.Path({str(pids)!r}).write_text(str(llama_server.engine.pid))\n"
        "    raise ValueError\n"
    )
    project.pytester.runpytest_subprocess("test_fails.py").assert_outcomes(failed=1)
    assert not psutil.pid_exists(int(pids.read_text()))
