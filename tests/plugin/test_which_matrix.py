"""Which matrix a run is of: the project's own, from wherever it is called, and the plugin's for no cells."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

TOLD = "there is no bench/matrix.yaml"
OWN = "def test_it(prompt_set): assert prompt_set('words').prompts\n"


def collected(project: Project, *arguments: str | Path) -> pytest.RunResult:
    return project.pytester.runpytest_subprocess("--collect-only", "-q", "-p", "no:cacheprovider", *arguments)


def assert_own(result: pytest.RunResult) -> None:
    """The project's cells are collected, and no others."""
    assert result.ret == 0, result.stdout.str()
    assert "tiny/none/word-en/t0/b1/first" in result.stdout.str()
    assert "tiny-moe" not in result.stdout.str()
    assert TOLD not in result.stdout.str()


@pytest.mark.parametrize("ini", ["", "pytest.ini", "bench/pytest.ini"])
@pytest.mark.parametrize("where", ["root", "bench", "elsewhere"])
def test_the_projects_matrix_from_anywhere(
    project: Project, monkeypatch: pytest.MonkeyPatch, ini: str, where: str
) -> None:
    """From the root, from inside `bench/`, from elsewhere; with an ini file or without."""
    if ini:
        (project.path / ini).write_text("[pytest]\n")
    (project.path / "elsewhere").mkdir()
    monkeypatch.chdir(project.path if where == "root" else project.path / where)
    assert_own(collected(project, *([] if where == "bench" else [project.bench])))


def test_the_nearest_matrix_is_taken(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the folder which pytest is called in does not take the place of the one beside the cells."""
    other = project.path / "elsewhere"
    (other / "bench").mkdir(parents=True)
    (other / "bench" / "matrix.yaml").write_text("version: 1\n")
    monkeypatch.chdir(other)
    assert_own(collected(project, project.bench))


def test_a_matrix_beside_the_cells_in_a_folder_of_another_name(project: Project) -> None:
    """The folder need not be called `bench`."""
    project.bench.rename(project.path / "speed")
    assert_own(collected(project, project.path / "speed"))


def test_own_tests_find_the_matrix_above_them(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of `prompt_set` reads `bench/matrix.yaml` of its project, wherever pytest was called."""
    tests = project.path / "tests"
    tests.mkdir()
    (tests / "test_own.py").write_text(OWN)
    (project.path / "elsewhere").mkdir()
    for folder, arguments in ((tests, []), (project.path / "elsewhere", [str(tests)]), (project.path, [])):
        monkeypatch.chdir(folder)
        result = project.pytester.runpytest_subprocess("-k", "test_it", "-p", "no:cacheprovider", *arguments)
        result.assert_outcomes(passed=1, deselected=8 if folder == project.path else 0)
        assert TOLD not in result.stdout.str()


def test_two_matrices_in_one_run_are_refused(project: Project) -> None:
    """Cells of two folders with a matrix each would be measured by the first one's."""
    speed = project.path / "speed"
    shutil.copytree(project.bench, speed)
    (speed / "test_cells.py").rename(speed / "test_speed.py")
    result = collected(project)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*OptionError: the tests of one run have two matrices*", "*to do: *"])
    named = collected(project, f"--ngram-matrix={project.matrix}")
    assert named.ret == 0


def test_cells_without_a_matrix_are_an_error(project: Project) -> None:
    """What is measured is never the plugin's own in place of the project's: the error says what to do."""
    project.matrix.unlink()
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "*OptionError: the cells have no matrix*",
            f"*checked: {project.matrix}*",
            "*to do: *pytest-ngram init*--ngram-matrix*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert TOLD not in result.stdout.str()


def test_a_link_to_nowhere_is_a_matrix_that_cannot_be_read(project: Project) -> None:
    """A link counts as there: neither cells nor own tests are given another matrix in its place."""
    project.matrix.unlink()
    project.matrix.symlink_to("gone.yaml")
    project.pytester.makepyfile(test_own=OWN)
    for arguments in (["bench"], ["test_own.py"]):
        result = project.pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
        assert result.ret != 0
        result.stdout.fnmatch_lines(
            ["*MatrixError: the matrix cannot be read: No such file*", "*link to gone.yaml*"]
        )
        assert TOLD not in result.stdout.str()
