"""Nothing that failed, or was not measured, looks like a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ngram.files import locked
from pytest_ngram.record import run_from_builtins

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

PEDANTIC = "benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds)"


def change_test(project: Project, old: str, new: str) -> None:
    path = project.bench / "test_cells.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("after", "status"),
    [("assert False", "error"), ("raise ValueError", "error"), ("import pytest; pytest.skip()", None)],
)
def test_a_cell_that_failed_after_its_request_is_ranked_nowhere(
    project: Project, after: str, status: str | None
) -> None:
    """Its time is in no table and no benchmark of the JSON; a failure is listed with its reason."""
    change_test(project, PEDANTIC, f"{PEDANTIC}\n    if 'word-en' in request.node.name: {after}")
    change_test(project, "ngram_cell: CellRun, benchmark", "ngram_cell: CellRun, request, benchmark")
    data = project.measure("-k", "mtp1", exit_code=1 if status else 0)
    (bench,) = data["benchmarks"]
    assert "word-ru" in bench["name"]
    failed = run_from_builtins(data["ngram"]).failed_cells
    assert [record.outcome.status for record in failed] == ([status] if status else [])
    text = project.run("-k", "mtp1").stdout.str()
    assert "test_cell[tiny/mtp1/word-ru/t0/b1]   " in text
    assert "test_cell[tiny/mtp1/word-en/t0/b1]   " not in text


def test_a_test_that_sends_no_request_fails(project: Project) -> None:
    """A cell without a request is no measurement, however green its test."""
    change_test(project, PEDANTIC, "pass")
    data = project.measure("-k", "mtp1", exit_code=1)
    assert data["benchmarks"] == []
    assert len(data["ngram"]["failed_cells"]) == 2


def test_a_cell_on_another_clock_is_refused(project: Project) -> None:
    """Wall time would be told as seconds per token."""
    change_test(project, "@pytest.mark.benchmark(timer=CLOCK)", "")
    result = project.run("-k", "mtp1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*OptionError: the test of a cell is timed by another clock*"])


def test_an_older_file_is_not_told_as_saved(project: Project) -> None:
    """A JSON of an earlier run that this run did not write is not listed."""
    (project.path / "run.json").write_text("{}")
    result = project.run(
        "-k", "mtp1", "--benchmark-disable", "--benchmark-json=run.json", "--benchmark-quiet"
    )
    assert result.ret == 0
    assert "saved: " not in "\n".join(line for line in result.outlines if not line.startswith("not saved"))
    result.stdout.fnmatch_lines(["not saved as JSON: benchmarks are disabled"])


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_deadline_that_is_no_time_is_refused(project: Project, seconds: str) -> None:
    """Such a deadline would fail every start, or none."""
    result = project.run(f"--ngram-load-deadline={seconds}")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*--ngram-load-deadline is no time to wait*"])


def test_another_run_on_this_host_is_told(project: Project, session_cache: Path) -> None:
    """Two runs slow each other down as xdist's workers would: it is said at once."""
    with locked(session_cache / "measuring.lock", 5.0):
        result = project.run("-k", "mtp1 and word-en", "--benchmark-quiet")
    result.stdout.fnmatch_lines(["warning: another run is measuring on this host*"])
    alone = project.run("-k", "mtp1 and word-en", "--benchmark-quiet")
    alone.stdout.no_fnmatch_line("*another run is measuring*")
