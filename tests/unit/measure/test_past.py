"""Timings of saved runs: both kinds of file, and what is neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger
from pytest_ngram.measure.past import read_past
from pytest_ngram.record import Record, Round, ServerStart, to_builtins

HEADER = Header(journal=JOURNAL, version="0", matrix_sha256="ab", profile="smoke", seed=1)
START = ServerStart(
    serial=1, model="alpha", config="none", temperature=0.0, block=1, pass_="first", load_s=2.0, warmup_s=1.0
)


@pytest.fixture
def ledger(tmp_path: Path, cells: list[PlannedCell], record_of: Callable[..., Record]) -> Ledger:
    """A run of one measured cell."""
    ledger = Ledger(tmp_path / "j.jsonl", HEADER)
    ledger.add_start(START)
    fields = dict.fromkeys(Round.__struct_fields__) | {
        "status": "ok",
        "seed": 1,
        "prompt_n": 10,
        "prompt_ms": 500.0,
        "predicted_n": 8,
        "predicted_ms": 700.0,
        "wall_s": 1.3,
    }
    ledger.add(replace(record_of(cells[0]), rounds=(Round(**fields),)))
    ledger.close()
    return ledger


def saved(ledger: Ledger, path: Path) -> Path:
    benchmarks = [{"extra_info": {"ngram": to_builtins(record)}} for record in ledger.records]
    benchmarks.append({"extra_info": {}})  # a benchmark that is no cell
    path.write_text(json.dumps({"benchmarks": benchmarks, "ngram": to_builtins(ledger.run_file())}))
    return path


def test_a_journal_and_a_saved_json_tell_the_same(ledger: Ledger, tmp_path: Path) -> None:
    """The same cells give the same timings, whichever file they are read from."""
    journal, run = read_past(ledger.path), read_past(saved(ledger, tmp_path / "run.json"))
    assert journal.models == run.models
    timing = run.models["alpha"].configs["none"]
    assert timing.start_s == 3
    assert timing.request_s(10, 8) == pytest.approx(1.3)
    assert run.label.startswith("run.json")


def test_what_is_neither_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """A missing file, another text or JSON, and a run that measured nothing: each is told."""
    (tmp_path / "text.yaml").write_text("models: {}")
    (tmp_path / "other.json").write_text('{"benchmarks": []}')
    empty = Ledger(tmp_path / "empty.jsonl", HEADER)
    saved(empty, tmp_path / "empty.json")
    for name in ("nowhere.json", "text.yaml", "other.json", "empty.json"):
        with pytest.raises(OptionError, match=r"--ngram-estimate-from"):
            read_past(tmp_path / name)


def test_a_broken_journal_is_told(ledger: Ledger) -> None:
    """A line that cannot be read is an error that names it, as in resuming."""
    ledger.path.write_bytes(ledger.path.read_bytes() + b"{broken\n")
    with pytest.raises(RecordError, match=r"line 4"):
        read_past(ledger.path)
