"""The cost curve on a real server: every width is seen, and none of it depends on what is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_ngram import cli
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.measure.curve import CurveRun, Wanted

MATRIX = """
version: 1
warmup: the model
hang_after_s: 60
models:
  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}
configs: {none: {}, mtp1: {types: [draft-mtp]}}
prompt_sets: {words: {path: words.yaml}}
profiles: {smoke: {blocks: 1, n_predict: 8}}
"""


@pytest.fixture
def matrix_path(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.yaml"
    path.write_text(MATRIX)
    return path


def test_every_width_is_measured(
    matrix_path: Path, session_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command gives T(2) to T(17) for lookups and five widths of MTP, as text and as JSON."""
    out = matrix_path.with_name("curve.json")
    code = cli.main(
        [
            *("curve", "tiny", "--matrix", str(matrix_path), "--blocks", "1", "--repeats", "1"),
            *("--cache-dir", str(session_cache), "--out", str(out)),
        ]
    )
    said = capsys.readouterr()
    assert code == 0, said.err
    saved = json.loads(out.read_bytes())
    widths = {name: [p["tokens"] for p in own["points"]] for name, own in saved["curve"]["series"].items()}
    assert widths == {"ngram": list(range(2, 18)), "draft-mtp": [2, 3, 4, 6, 9]}
    assert saved["curve"]["series"]["draft-mtp"]["draft_ratio"] > 0
    assert {row["n_max"] for row in saved["break_even"]["ngram"]} >= {1, 2, 3, 16}
    assert "break-even" in said.out
    assert saved["notes"] == []


def test_a_url_is_refused(matrix_path: Path, session_cache: Path) -> None:
    """The drafts of a server that somebody else started cannot be chosen."""
    factory = Factory(choose("http://127.0.0.1:9"), cache_dir=session_cache)
    matrix = decode_matrix(MATRIX, "m.yaml")
    with pytest.raises(EngineError, match="somebody else"):
        CurveRun(
            matrix,
            matrix_path.parent,
            factory,
            Wanted("tiny"),
            cache=session_cache,
            folder=matrix_path.parent,
        )


def test_without_runs_and_servers_there_is_nothing(
    matrix_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--only-from without a run says what is missing."""
    assert cli.main(["curve", "tiny", "--matrix", str(matrix_path), "--only-from"]) == 1
    assert "nothing to make a curve of" in capsys.readouterr().err
