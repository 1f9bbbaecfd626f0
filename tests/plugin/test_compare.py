"""Two real runs compared: by `--ngram-baseline` at the end of a run, and by `pytest-ngram report`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

THREE_BLOCKS = ("smoke: {blocks: 1,", "smoke: {blocks: 3,")
QUICK = ("-k", "none/ or mtp1/", "--ngram-contended=100%", "--ngram-pressure=100%")


def report(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_ngram.cli", "report", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_longer_draft_is_told_and_fails_its_bound(project: Project) -> None:
    """Two runs on a real server, the second with n_max 3: the flag is listed, acceptance falls below its
    bound, the run fails at its end though each test passed, and the command says the same of the two files.
    """
    project.edit(*THREE_BLOCKS)
    project.measure(*QUICK)
    old = (project.path / "run.json").rename(project.path / "old.json")
    project.edit("--spec-draft-n-max 1", "--spec-draft-n-max 3")
    bounds = "acceptance:-0.05"
    new = project.path / "new.json"
    result = project.run(
        *QUICK, f"--benchmark-json={new}", f"--ngram-baseline={old}", f"--ngram-fail-on={bounds}"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=18)
    result.stdout.fnmatch_lines(
        [
            "*against the baseline*",
            "this run against old.json",
            "*what differs*before*now*",
            "*tiny/mtp1*flags*--spec-draft-n-max 1*--spec-draft-n-max 3*",
            "tiny, temperature 0",
            "*bounds: fail*",
            "*FAIL*tiny/mtp1*is beyond acceptance:-0.05*",
            "the run fails: fail (--ngram-fail-on)",
        ]
    )
    _the_command_says_the_same(old, new, project.path / "compared.json")


def _the_command_says_the_same(old: Path, new: Path, out: Path) -> None:
    failed = report(new, "--baseline", old, "--fail-on", "acceptance:-0.05", "--json", out)
    assert (failed.returncode, failed.stderr) == (1, "")
    found = json.loads(out.read_text())
    assert found["checked"]["outcome"] == "fail"
    (model,) = found["comparison"]["models"]
    mtp = next(each for each in model["configs"] if each["config"] == "mtp1")
    # more tokens of a longer draft are kept, which makes a token cheaper however long the steps took
    assert mtp["attribution"]["parts"]["acceptance"] < 0
    change = mtp["attribution"]["new_ms"] - mtp["attribution"]["old_ms"]
    assert sum(mtp["attribution"]["parts"].values()) == pytest.approx(change)
    same = report(new, "--baseline", new, "--fail-on", "acceptance:-0.05,coverage:-0")
    assert same.returncode == 0, same.stdout
    assert "bounds: pass" in same.stdout
    noisy = report(new, "--baseline", new, "--fail-on", "tg:-0%")
    assert noisy.returncode == 3
    assert "has the bound tg:-0% in it" in noisy.stdout
    alone = report(new)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "tiny, temperature 0: " in alone.stdout
    assert "draft-mtp n_max 2, from mtp1" in alone.stdout
    page = out.with_suffix(".md")
    written = report(new, "--baseline", old, "--md", page)
    assert (written.returncode, written.stderr) == (0, "")
    assert "spec-draft-n-max 3" in page.read_text().replace("\\", "")


def test_too_few_blocks_fail_the_run(project: Project) -> None:
    """One block tells nothing: a run with a bound that cannot be told fails, and says why."""
    project.measure(*QUICK)
    old = (project.path / "run.json").rename(project.path / "old.json")
    result = project.run(*QUICK, f"--ngram-baseline={old}", "--ngram-fail-on=acceptance:-0.05")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*CANNOT TELL*tiny/mtp1*1 of the 3 blocks*", "the run fails: cannot tell (--ngram-fail-on)"]
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ngram-fail-on=tg:-5%"], "--ngram-fail-on has nothing to compare with"),
        (["--ngram-baseline=gone.json"], "gone.json cannot be read: No such file or directory"),
        (["--ngram-baseline=bench/words.yaml"], "words.yaml is neither a saved JSON nor a journal"),
        (["--ngram-baseline=bench/words.yaml", "--ngram-fail-on=tg:5%"], "'5%' has no sign"),
    ],
)
def test_what_cannot_be_followed_is_told_before_hours(
    project: Project, options: list[str], said: str
) -> None:
    """A bad option or baseline ends the collection with exit code 2, and nothing was measured."""
    result = project.run(*QUICK, *options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert said in result.stdout.str()
    assert not list(project.path.glob(".ngram/journal-*"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is no whole JSON: it was cut off or edited"),
        ("[]", "is neither a saved JSON nor a journal"),
        ('{"benchmarks": []}', "is not a saved run with cells"),
        ('{"benchmarks": [], "ngram": {"schema": 99}}', "schema 99 cannot be read"),
        ('{"kind": "cell"}', "line 1 of the journal cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_no_regression(tmp_path: Path, text: str | None, said: str) -> None:
    """Exit code 2, never 1: a script has to tell a slower build from a file that is not there."""
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    done = report(path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "to do: " in done.stderr


def test_bounds_without_a_baseline_are_refused(tmp_path: Path) -> None:
    """`--fail-on` alone would pass whatever happened."""
    done = report(tmp_path / "run.json", "--fail-on", "tg:-5%")
    assert done.returncode == 2
    assert "--baseline is not given" in done.stderr
