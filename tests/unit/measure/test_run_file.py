"""Saved runs, read back: both kinds of file are one run, and what is none is told as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_ngram.errors import RecordError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger
from pytest_ngram.measure.run_file import NoRunError, read_run
from pytest_ngram.record import Outcome, Prompt, Record, to_builtins

HEADER = Header(journal=JOURNAL, version="0", matrix_sha256="ab", profile="smoke", seed=1)
PROMPT = Prompt(model="alpha", prompt="p", prompt_set="s", tokens="x")


@pytest.fixture
def ledger(tmp_path: Path, cells: list[PlannedCell], record_of: Callable[..., Record]) -> Ledger:
    """A run in which the first cell crashed, was measured again and ended well, and the second crashed."""
    ledger = Ledger(tmp_path / "j.jsonl", HEADER)
    ledger.add_prompt(PROMPT)
    crash = Outcome(status="crash", reason="it ended")
    first, second = record_of(cells[0]), record_of(cells[1])
    for record in (replace(first, outcome=crash), first, replace(second, outcome=crash)):
        ledger.add(record)
    ledger.close()
    return ledger


def test_a_journal_and_a_saved_json_are_one_run(ledger: Ledger, tmp_path: Path) -> None:
    """The same cells with their last outcome, failed ones too, and the same prompts and header."""
    journal = read_run(ledger.path)
    path = tmp_path / "run.json"
    last = {record.cell: record for record in ledger.records}.values()
    good = [{"extra_info": {"ngram": to_builtins(r)}} for r in last if r.outcome.status == "ok"]
    file = replace(ledger.run_file(), failed_cells=tuple(r for r in last if r.outcome.status != "ok"))
    path.write_text(json.dumps({"benchmarks": [*good, {"extra_info": {}}], "ngram": to_builtins(file)}))
    saved = read_run(path)
    assert replace(saved, name=journal.name) == journal
    assert [record.outcome.status for record in saved.records] == ["ok", "crash"]
    assert saved.prompts == (PROMPT,)
    assert (saved.version, saved.profile, saved.matrix_sha256, saved.seed) == ("0", "smoke", "ab", 1)


@pytest.mark.parametrize(
    ("told", "when"),
    [("2026-05-04T08:17:28.163948+00:00", "2026-05-04T08:17:28.163948+00:00"), ("noon", None), (7, None)],
)
def test_when_a_run_was_saved_is_known_from_its_json(
    ledger: Ledger, tmp_path: Path, told: object, when: str | None
) -> None:
    """What is no date is not known; a journal has none."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"benchmarks": [], "ngram": to_builtins(ledger.run_file()), "datetime": told}))
    assert read_run(path).when == when
    assert read_run(ledger.path).when is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# a page", "is neither a saved JSON nor a journal"),
        (b'{"benchmarks": [', "is no whole JSON: it was cut off or edited"),
        (b'{"machine_info": {}}', "is not a saved run with cells"),
        (b'{"benchmarks": 3, "ngram": {}}', "is not a saved run with cells"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, content: bytes, said: str) -> None:
    """The name of the file, what is wrong with it, and what would do."""
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(NoRunError, match=r"x\.json") as caught:
        read_run(path)
    assert caught.value.what == said
    assert "journal of .ngram/" in caught.value.fix


def test_a_record_of_another_schema_is_no_missing_run(tmp_path: Path) -> None:
    """It is ours and cannot be read: another error, which names the schema."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"benchmarks": [], "ngram": {"schema": 2}}))
    with pytest.raises(RecordError, match="schema 2") as caught:
        read_run(path)
    assert not isinstance(caught.value, NoRunError)
