"""What an argument may not be is said before any work begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.cli import main


@pytest.mark.parametrize(
    ("place", "said"),
    [(".", "is a folder"), ("nowhere/curve.json", "is in no folder")],
    ids=["folder", "none"],
)
def test_a_curve_that_could_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, said: str
) -> None:
    """`curve --out` of a place where no file can be is refused at once: nothing was measured in vain."""
    with pytest.raises(SystemExit) as caught:
        main(["curve", "tiny", "--matrix", str(tmp_path / "matrix.yaml"), "--out", str(tmp_path / place)])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
