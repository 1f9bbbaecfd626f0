"""The report of a bench: it is there when the run ends, its path is said last, and it risks nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

BENCH = ("-k", "none or mtp1", "--benchmark-quiet")
LATE = """
from pathlib import Path
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    {body}
"""


def last_lines(result: pytest.RunResult, count: int) -> list[str]:
    """The last lines with words before pytest's own."""
    lines = [line for line in result.stdout.lines if line.strip()]
    return lines[-1 - count : -1]


def test_a_run_ends_with_the_answer_and_the_path_of_its_report(project: Project) -> None:
    """Without an option the report stands beside the journal, under its name."""
    result = project.pytester.runpytest_subprocess("bench", "-p", "no:cacheprovider", *BENCH)
    result.assert_outcomes(passed=6, deselected=2)
    report = project.journal.with_suffix(".html")
    text = result.stdout.str()
    assert last_lines(result, 1) == [f"report: {report}"]
    assert text.index("tiny, temperature 0: ") > text.index("journal: ")
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_reports_go_where_they_are_asked_for(project: Project) -> None:
    """The name says the kind; each is named; the default one is not written beside them."""
    result = project.run(*BENCH, "--ngram-report=r.html", "--ngram-report=r.md")
    assert last_lines(result, 2) == [f"report: {project.path / 'r.html'}", f"report: {project.path / 'r.md'}"]
    assert "<table>" in (project.path / "r.html").read_text(encoding="utf-8")
    assert "| mtp1 | cannot tell |" in (project.path / "r.md").read_text(encoding="utf-8")
    assert list((project.path / ".ngram").glob("*.html")) == []


def test_no_report_is_written_where_none_is_wanted(project: Project) -> None:
    """`none` writes no file, and says nothing of one."""
    result = project.run(*BENCH, "--ngram-report=none")
    assert "report: " not in result.stdout.str()
    assert list(project.path.rglob("*.html")) == []


def test_failed_cells_are_in_the_report(project: Project) -> None:
    """A run in which nothing ended well has a report too, which gives the reason."""
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    result = project.run(*BENCH, "--ngram-report=r.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = (project.path / "r.html").read_text(encoding="utf-8")
    assert "gone.gguf" in text
    assert "nothing is claimed" in text or "cannot tell" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("r.pdf", "names a report of no kind"), ("nowhere/r.html", "in no folder"), ("bench", "of no kind")],
)
def test_what_could_not_be_written_is_refused_before_the_hours(
    project: Project, name: str, expected: str
) -> None:
    """A name that tells no kind, or a folder that is not there, is an error before anything is measured."""
    result = project.run(*BENCH, f"--ngram-report={name}")
    assert result.ret != 0
    said = result.stdout.str() + result.stderr.str()
    assert "--ngram-report" in said
    assert expected in said
    assert not (project.path / ".ngram").exists()


def test_a_report_that_cannot_be_written_loses_nothing(project: Project) -> None:
    """The summary is printed, the run is saved, and what to do is said; the run fails if it was asked for."""
    (project.path / "conftest.py").write_text(LATE.format(body='Path("r.html").mkdir()'), encoding="utf-8")
    data = project.measure(*BENCH, "--ngram-report=r.html", exit_code=1)
    assert len(data["benchmarks"]) == 6
    (project.path / "r.html").rmdir()
    result = project.run(*BENCH, "--ngram-report=r.html")
    assert "tiny: 2 prompts, temperature 0" in result.stdout.str()
    said, fix = last_lines(result, 2)
    assert said.startswith(f"NO REPORT: {project.path / 'r.html'} cannot be written: ")
    assert "pytest-ngram report" in fix


def test_a_report_that_nobody_asked_for_fails_no_run(project: Project) -> None:
    """The one beside the journal is a gift: where it cannot be written, that is told."""
    (project.path / "j.html").mkdir()
    options = ("-p", "no:cacheprovider", "--ngram-journal=j.jsonl", *BENCH)
    result = project.pytester.runpytest_subprocess("bench", *options)
    assert result.ret == 0
    assert last_lines(result, 2)[0].startswith(f"NO REPORT: {project.path / 'j.html'}")


def test_a_fault_in_a_report_loses_nothing(project: Project) -> None:
    """Whatever goes wrong while it is made, the tables and the path of the journal are printed."""
    body = "import pytest_ngram.report.written as written; written.KINDS = {'.html': lambda shown: 1 / 0}"
    (project.path / "conftest.py").write_text(LATE.format(body=body), encoding="utf-8")
    result = project.run(*BENCH, "--ngram-report=r.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in result.stdout.str()
    result.stdout.fnmatch_lines(
        ["tiny: 2 prompts*", "journal: *", "NO REPORT: *ZeroDivisionError*", "  to do: *"]
    )
