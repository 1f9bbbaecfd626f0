"""Saving: whatever ends a run, what was measured is saved, and the last lines say how to go on."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

if TYPE_CHECKING:
    from conftest import Project

DEADLINE_S = 60.0


def interrupt_after(project: Project, cells: int, *options: str) -> str:
    """Run the cells, send Ctrl-C once so many have ended, and return what was printed."""
    command = project.command(*options)
    out = project.path / "out.txt"
    with out.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=project.path, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + DEADLINE_S
    journals = project.path / ".ngram"
    while time.monotonic() < deadline and process.poll() is None:
        if sum(path.read_bytes().count(b'"kind":"cell"') for path in journals.glob("*.jsonl")) >= cells:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.01)
    assert process.wait(timeout=DEADLINE_S) == pytest.ExitCode.INTERRUPTED, out.read_text()
    return out.read_text()


def test_ctrl_c_saves_what_was_measured_and_says_how_to_go_on(project: Project) -> None:
    """The interrupted cell has no data; the others are saved, and the printed command completes the run."""
    project.edit("n_predict: 48", "n_predict: 2000")
    text = interrupt_after(project, 2, "-k", "none or mtp1", "--benchmark-autosave", "--benchmark-quiet")
    assert "Traceback" not in text
    (saved,) = (project.path / ".benchmarks").rglob("*.json")
    first = json.loads(saved.read_text())
    assert 2 <= len(first["benchmarks"]) < 6
    assert first["ngram"]["run"]["measured_cells"] == len(first["benchmarks"])

    (command,) = [line.strip() for line in text.splitlines() if line.startswith("  pytest ")]
    words = shlex.split(command)
    subprocess.run([sys.executable, "-m", *words], cwd=project.path, check=True, stdout=subprocess.DEVNULL)
    second = max((project.path / ".benchmarks").rglob("*.json"))
    data = json.loads(second.read_text())
    assert len(data["benchmarks"]) == 6
    assert data["ngram"]["run"]["resumed_cells"] == len(first["benchmarks"])


def test_a_run_whose_cells_all_failed_is_saved(project: Project) -> None:
    """A JSON without a single benchmark still lists the cells that failed, with their reasons."""
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    data = project.measure("-k", "mtp1", exit_code=1)
    assert data["benchmarks"] == []
    assert [cell["outcome"]["status"] for cell in data["ngram"]["failed_cells"]] == ["refused", "refused"]


def test_the_same_error_is_told_once(project: Project) -> None:
    """All cells of a server fail for one reason: it is told whole once, and in a line after that."""
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    text = project.run("-k", "mtp1").stdout.str()
    assert text.count("to do: ") == 1
    assert text.count("(as above)") == 1


def test_failed_cells_have_a_command_too(project: Project) -> None:
    """Resuming measures failed cells again; the command is printed, and works once the path is mended."""
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    result = project.run("-k", "mtp1 or none", "--benchmark-quiet")
    result.stdout.fnmatch_lines(
        [
            f"  refused: tiny/*and 5 more: *({project.bench / 'gone.gguf'})",
            "0 not measured, 6 failed; mend the reason first, then:",
            "  pytest * bench *-k 'mtp1 or none'*",
        ]
    )
    shutil.copy(generate(HandBuiltSpec(), project.cache / "models"), project.bench / "found.gguf")
    project.edit("path: gone.gguf", "path: found.gguf")
    result = project.run("-k", "mtp1 or none", f"--ngram-resume={project.journal}")
    result.assert_outcomes(passed=6, deselected=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--benchmark-compare-fail=mean:5%"], "has nothing to compare with"),
        (["--benchmark-json=nowhere/run.json"], "in a folder that is not there"),
        (["--benchmark-cprofile=cumtime"], "cannot be used with cells"),
    ],
)
def test_what_cannot_work_is_found_before_anything_is_measured(
    project: Project, options: list[str], expected: str
) -> None:
    """Not after hours, and not once per cell."""
    result = project.run(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.stdout.str().count(expected) == 1
    assert not (project.path / ".ngram").exists()


def test_a_journal_that_is_there_is_found_before_anything_is_measured(project: Project) -> None:
    """The same command twice: the second run ends at once, and what the first one saved stays."""
    options = ["-k", "none", "--ngram-journal=j.jsonl", "--benchmark-json=b.json", "--benchmark-quiet"]
    assert project.run(*options).ret == 0
    saved = [(project.path / name).read_bytes() for name in ("j.jsonl", "b.json")]
    result = project.run(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.stdout.str().count("--ngram-journal names a file that is there already") == 1
    assert [(project.path / name).read_bytes() for name in ("j.jsonl", "b.json")] == saved


def test_a_run_that_measured_nothing_overwrites_no_results(project: Project) -> None:
    """All cells are refused: the JSON of an earlier run is left as it was, and that is said."""
    project.measure("-k", "none")
    saved = project.path / "run.json"
    before = saved.read_bytes()
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    result = project.run("-k", "none", f"--benchmark-json={saved}", "--benchmark-quiet")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert saved.read_bytes() == before
    result.stdout.fnmatch_lines(["NOT SAVED", "not saved: nothing was measured", f"*{saved} holds what*"])
    assert f"saved: {saved}" not in result.stdout.str().splitlines()


# From the second cell on no file may grow: the same end as a full disk, for this process alone.
FULL_AT_THE_SECOND_CELL = """
import resource
from pathlib import Path
import pytest

ended = 0

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    global ended
    ended += call.when == "call"
    if ended == 2:
        (journal,) = Path(".ngram").glob("*.jsonl")
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size + 100, resource.RLIM_INFINITY))
"""


def test_a_full_disk_says_how_many_cells_the_journal_holds(project: Project) -> None:
    """The cell whose line had no room is not counted as kept, and its run is not said to be whole."""
    (project.bench / "conftest.py").write_text(FULL_AT_THE_SECOND_CELL, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "bench", "-p", "no:cacheprovider", "-k", "none"]
    command += ["--benchmark-json=run.json", "--benchmark-quiet"]
    text = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False).stdout
    assert "1 of 2 cells that ended are in the journal" in text
    assert f"--ngram-resume={project.journal}: they are not measured again" in text
    assert project.journal.read_text().count('"kind":"cell"') == 1
    (project.bench / "conftest.py").unlink()
    result = project.run("-k", "none", f"--ngram-resume={project.journal}")
    result.assert_outcomes(passed=4, deselected=4)
    assert project.journal.read_text().count('"kind":"cell"') == 4
