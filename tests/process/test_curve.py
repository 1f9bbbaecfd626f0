"""The cost curve on a real server: every width is seen, and none of it depends on what is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_ngram import cli
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import Start
from pytest_ngram.measure.curve import CurveRun, Wanted
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.servers import Servers
from pytest_ngram.record import Cell, Outcome, Record, Round, Run, RunFile, to_builtins

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
    told = capsys.readouterr().err
    assert "nothing to make a curve of" in told
    assert "with --from" in told


def _record(cell: Cell, one: Round) -> Record:
    nothing = dict.fromkeys(("model", "engine", "server", "memory", "host", "table"))
    return Record(cell=cell, rounds=(one,), outcome=Outcome("ok"), **nothing)


def _argv(matrix_path: Path, run: Path, *more: str) -> list[str]:
    return ["curve", "tiny", "--matrix", str(matrix_path), "--only-from", "--from", str(run), *more]


@pytest.fixture
def saved_run(matrix_path: Path, session_cache: Path, tmp_path: Path) -> Path:
    """A run of `none` and `mtp1` on a real server, in the form of a saved benchmark."""
    matrix = decode_matrix(MATRIX, "m.yaml")
    factory = Factory(choose(None), cache_dir=session_cache)
    models = Models(matrix, matrix_path.parent, session_cache)
    servers = Servers(matrix, models, factory, logs=tmp_path)
    benchmarks = []
    for position, config in enumerate(("none", "mtp1")):
        server = servers.serve(Start("tiny", config, 0.0, 1, position), None)
        try:
            prompt = server.client.tokenize(MATRIX, parse_special=False, add_special=True)
            request = CompletionRequest(prompt=prompt, n_predict=40, temperature=0.0, seed=1)
            one = measure(server, request, hang_after_s=60)
        finally:
            server.stop()
        cell = Cell("tiny", config, "p", "words", 0.0, 1, "first", position)
        benchmarks.append({"extra_info": {"ngram": to_builtins(_record(cell, one))}})
    path = tmp_path / "run.json"
    file = RunFile(run=_run(len(benchmarks)), prompts=(), failed_cells=())
    path.write_text(json.dumps({"benchmarks": benchmarks, "ngram": to_builtins(file)}))
    return path


def _run(cells: int) -> Run:
    return Run(
        version="1",
        profile="smoke",
        matrix_sha256="ab" * 32,
        seed=1,
        order=(),
        starts=(),
        wall_s=1.0,
        planned_cells=cells,
        measured_cells=cells,
        resumed_from=None,
        resumed_cells=0,
    )


def test_a_curve_that_cannot_be_written_is_still_told(
    matrix_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines come first; then the error names the file."""
    assert cli.main(_argv(matrix_path, saved_run, "--out", "/proc/curve.json")) == 1
    said = capsys.readouterr()
    assert "T(w)/T(1)" in said.out
    assert "/proc/curve.json cannot be written" in said.err


def test_disturbed_cells_of_a_saved_run_are_no_part_of_the_curve(
    matrix_path: Path, saved_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them nothing is left here, and it is said why."""
    run = json.loads(saved_run.read_text())
    for each in run["benchmarks"]:
        each["extra_info"]["ngram"]["disturbance"] = {"contended": ["others took 40 % of the cores"]}
    saved_run.write_text(json.dumps(run))
    assert cli.main(_argv(matrix_path, saved_run)) == 1
    assert "cells of saved runs that are left out, since contended or throttled: 2" in capsys.readouterr().err
