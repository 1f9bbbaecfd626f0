"""The ledger: what a resumed run takes over, and what it measures again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger, open_ledger
from pytest_ngram.record import Prompt, Record

HEADER = Header(journal=JOURNAL, version="0", matrix_sha256="ab", profile="smoke", seed=1)
Save = Callable[[Iterable[tuple[PlannedCell, str]]], Ledger]


@pytest.fixture
def resumed(tmp_path: Path, record_of: Callable[..., Record]) -> Save:
    """Write a journal of cells with their outcomes and open it again."""

    def save(cells: Iterable[tuple[PlannedCell, str]]) -> Ledger:
        path = tmp_path / "j.jsonl"
        ledger = Ledger(path, HEADER)
        for planned, status in cells:
            ledger.add(record_of(planned, status))
        ledger.close()
        return open_ledger(HEADER, resume=path, journal=None, default=lambda: path)

    return save


def of_config(cells: list[PlannedCell], config: str) -> list[PlannedCell]:
    return [cell for cell in cells if cell.start.config == config]


def test_measured_cells_are_taken_over(resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec) -> None:
    """Cells that ended well are not measured again."""
    ledger = resumed((cell, "ok") for cell in cells)
    ledger.choose(cells, matrix)
    assert set(ledger.restored) == {cell.cell for cell in cells}


def test_failed_cells_are_measured_again(resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec) -> None:
    """A crash or a hang is no result to go on with."""
    first, second = of_config(cells, "mtp1")
    ledger = resumed([(first, "ok"), (second, "hang")])
    ledger.choose(cells, matrix)
    assert set(ledger.restored) == {first.cell}


def test_a_stateful_start_is_taken_over_whole_or_not_at_all(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec
) -> None:
    """ngram-cache drafts from earlier prompts, which a fresh server has not seen."""
    first = of_config(cells, "ngram-cache")[0]
    partial = resumed([(first, "ok")])
    partial.choose(cells, matrix)
    assert partial.restored == {}


def test_a_whole_stateful_start_is_taken_over(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec
) -> None:
    """Once all its cells are there, the start need not be repeated."""
    ledger = resumed((cell, "ok") for cell in of_config(cells, "ngram-cache"))
    ledger.choose(cells, matrix)
    assert len(ledger.restored) == 2


def test_a_restored_cell_is_not_written_twice(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """The journal holds each result once, however often the run is resumed."""
    ledger = resumed([(cells[0], "ok")])
    ledger.choose(cells, matrix)
    before = ledger.path.read_bytes()
    ledger.add(record_of(cells[0]))
    assert ledger.path.read_bytes() == before
    assert len(ledger.records) == 1


@pytest.mark.parametrize(
    "change", [{"profile": "full"}, {"matrix_sha256": "cd"}, {"seed": 2}, {"version": "9"}]
)
def test_a_journal_of_another_run_is_refused(
    resumed: Save, cells: list[PlannedCell], change: dict[str, object]
) -> None:
    """Another matrix, profile, seed or version: an error that names what differs."""
    path = resumed([(cells[0], "ok")]).path
    fields = {name: getattr(HEADER, name) for name in Header.__struct_fields__}
    with pytest.raises(OptionError, match=next(iter(change))):
        open_ledger(Header(**{**fields, **change}), resume=path, journal=None, default=lambda: path)


def test_a_prompt_that_becomes_other_ids_is_an_error(tmp_path: Path) -> None:
    """Template or tokenizer changed in the middle of a run: nothing after it compares with before."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="x"))
    ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="x"))
    with pytest.raises(RecordError, match="other token ids"):
        ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="y"))


def test_nothing_measured_leaves_no_file(tmp_path: Path) -> None:
    """`--collect-only` writes no journal."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.close()
    assert not (tmp_path / "j").exists()


def test_the_run_tells_an_interrupted_session(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """measured_cells below planned_cells says that the JSON is not of a whole run."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.choose(cells, matrix)
    ledger.add(record_of(cells[0], "crash"))
    run = ledger.run_file()
    assert (run.run.planned_cells, run.run.measured_cells) == (len(cells), 1)
    assert [record.outcome.status for record in run.failed_cells] == ["crash"]
