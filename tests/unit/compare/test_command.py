"""`pytest-ngram report` on files: what is read is never written over, and each exit code means one thing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.cli import main
from pytest_ngram.record import Outcome, Run, RunData, RunFile, to_builtins

Make = Callable[..., RunData]
BELOW = {"mtp1": 1.5}


def save(run: RunData, path: Path) -> Path:
    file = RunFile(
        run=Run(
            version=run.version,
            profile=run.profile,
            matrix_sha256=run.matrix_sha256,
            seed=run.seed,
            order=(),
            starts=(),
            wall_s=1.0,
            planned_cells=len(run.records),
            measured_cells=len(run.records),
            resumed_from=None,
            resumed_cells=0,
        ),
        prompts=run.prompts,
        failed_cells=tuple(r for r in run.records if r.outcome != Outcome("ok")),
    )
    good = [{"extra_info": {"ngram": to_builtins(r)}} for r in run.records if r.outcome == Outcome("ok")]
    path.write_text(json.dumps({"benchmarks": good, "ngram": to_builtins(file)}))
    return path


@pytest.fixture
def runs(make_run: Make, tmp_path: Path) -> tuple[Path, Path]:
    """An old run, and a new one whose mtp1 is slower by half."""
    return save(make_run(), tmp_path / "old.json"), save(make_run(slower=BELOW), tmp_path / "new.json")


def report(*words: object) -> tuple[int, str, str]:
    """The exit code and what was written."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["report", *map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def report_to_a_full_disk(*words: object) -> tuple[int, str]:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_ngram.cli", "report", *map(str, words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize("which", ["new.json", "old.json"])
@pytest.mark.parametrize("how", ["the name", "another spelling", "a link", "a hard link"])
def test_what_is_read_is_not_written_over(runs: tuple[Path, Path], which: str, how: str) -> None:
    """A run is hours of measuring: --json refuses its name, however that is written, and reads nothing."""
    old, new = runs
    target = out = old.with_name(which)
    before = target.read_bytes()
    if how == "another spelling":
        out = target.parent / ".." / target.parent.name / target.name
    elif how != "the name":
        out = target.with_name("link.json")
        out.symlink_to(target) if how == "a link" else os.link(target, out)
    code, told, said = report(new, "--baseline", old, "--json", out)
    assert (code, told) == (2, "")
    assert "--json would write over a file that is read" in said
    assert target.read_bytes() == before


def test_a_loop_of_links_is_an_error_like_any_other(runs: tuple[Path, Path]) -> None:
    """No traceback for what no file can be behind."""
    old, new = runs
    loop = old.with_name("loop.json")
    loop.symlink_to(loop)
    code, _told, said = report(new, "--baseline", old, "--json", loop)
    assert (code, said.splitlines()[0]) == (
        2,
        "OptionError: --json cannot be written: Too many levels of symbolic links",
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--fail-on", "tg:-5%"), 1),
        (("--fail-on", "tg:-50%"), 0),
        (("--fail-on", "tg:-5%%"), 2),
        (("--fail-on", f"rss:+{'9' * 400}%"), 2),
        ((), 0),
    ],
)
def test_the_exit_code_is_that_of_the_bounds(
    runs: tuple[Path, Path], words: tuple[str, ...], code: int
) -> None:
    """0, 1 and 2 as the page of comparisons says; and 2, not 1, where nobody could read the answer."""
    old, new = runs
    assert report(new, "--baseline", old, *words)[0] == code
    if Path("/dev/full").exists():
        code, said = report_to_a_full_disk(new, "--baseline", old, *words)
        assert code == 2
        assert "Traceback" not in said


@pytest.mark.parametrize(
    "content",
    [b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"kind":' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
)
def test_a_file_that_is_too_deep_to_read_is_no_run(tmp_path: Path, content: bytes) -> None:
    """It is no failed bound."""
    path = tmp_path / "deep.json"
    path.write_bytes(content)
    code, _told, said = report(path)
    assert code == 2
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("rounds", "predicted_ms", 5e-324),
        ("rounds", "predicted_ms", 1e308),
        ("rounds", "predicted_ms", -1e308),
        ("rounds", "predicted_n", 1),
        ("memory", "rss_anon_mb", 1e308),
        ("memory", "rss_anon_mb", -1e308),
    ],
)
def test_absurd_numbers_end_in_an_answer_or_an_error(
    runs: tuple[Path, Path], part: str, field: str, value: float
) -> None:
    """An edited number is no failed bound either, and a page is written or refused, never half."""
    old, new = runs
    data = json.loads(new.read_text())
    for each in data["benchmarks"]:
        found = each["extra_info"]["ngram"][part]
        (found[0] if part == "rounds" else found)[field] = value
    new.write_text(json.dumps(data))
    for more in ((), ("--baseline", old)):
        code, _told, said = report(new, *more, "--html", new.with_suffix(".html"))
        assert code in (0, 2, 3), said


@pytest.mark.parametrize("mark", ["\x1b[31m", "\r", "\x9b2J", "\u202e", "\u2066", "\x07"])
def test_a_name_steers_no_terminal(make_run: Make, tmp_path: Path, mark: str) -> None:
    """A label of somebody else's run is shown letter by letter; a family of emoji stays one."""
    run = make_run()
    path = save(run, tmp_path / "old.json")
    data = json.loads(path.read_text())
    for each in data["benchmarks"]:
        each["extra_info"]["ngram"]["engine"]["label"] = f"юникод 👨‍👩‍👧 {mark} end"
    new = tmp_path / "new.json"
    new.write_text(json.dumps(data))
    code, told, _said = report(new, "--baseline", path)
    assert code == 0
    assert mark not in told
    assert f"юникод 👨‍👩‍👧 {ascii(mark)[1:-1]} end" in told
