"""`pytest-ngram report FILE.yaml`: single numbers that somebody wrote down."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.cli import main

REFERENCE = Path(__file__).parents[3] / "fixtures" / "reference_run.yaml"


def report(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["report", *map(str, words)])
    code = caught.value.code
    assert isinstance(code, int)
    return code


def test_the_reference_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure with its label, the conclusions with the noise that they bear, the run's own floor."""
    assert report(REFERENCE) == 0
    out = capsys.readouterr().out
    assert out.count("point estimate, unrepeated") == 17
    assert "  E ngram-cache: 4.76 t/s (-43.1%): point estimate, unrepeated; what -43.1% is made of" in out
    assert "the widths of MTP point to mtp1" in out
    assert out.splitlines()[-1].startswith("the only repeat in this run makes a noise floor of 2.7%")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: {a: [{id: A, config: none, tg: fast}]}", "`$.groups.a[0].tg`"),
        ("groups: {a: [{id: A, config: none, tg: 0}]}", "`$.groups.a[0].tg`"),
        ("groups: {a: [{id: A, config: none, tg: .inf}]}", "`$.groups.a[0].tg`"),
        ("groups: {a: [{id: A, config: none, tg: 1, acept: 0.5}]}", "`acept` - at `$.groups.a[0]`"),
        ("groups: {a: [{id: A, config: none, tg: 1, accept: 50}]}", "`$.groups.a[0].accept`"),
        ("groups: {a: [{id: A, config: x, tg: 1}, {id: B, config: x, tg: 2}]}", "'x' is there twice"),
        ("groups: {a: 5}", "`$.groups.a`"),
        ("groups: {a: []}", "there is no row"),
        ("rows: []", "`groups`"),
        ("groups: {a: [", "line 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """No number is guessed: the command cannot be followed, and says where the file is wrong."""
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    assert report(path) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "to do: " in err


def test_options_that_single_numbers_cannot_follow_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A page or a bound of such a file would be claimed in vain."""
    assert report(REFERENCE, "--fail-on", "tg:-5%", "--html", "r.html") == 2
    assert "--fail-on, --html" in capsys.readouterr().err
    assert report("nowhere.yaml") == 2
    assert "nowhere.yaml cannot be read" in capsys.readouterr().err
