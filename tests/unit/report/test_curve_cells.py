"""Which cells of runs a cost curve is made of, and what is divided by what."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pytest_ngram.record import Disturbance, Outcome, Record, StepTime
from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.page import Shown, build
from pytest_ngram.verdict.curve import curve
from pytest_ngram.verdict.curve_cells import is_timed, steps_of

Cells = Callable[..., list[Record]]


def with_steps(record: Record, *steps: tuple[int, int, float]) -> Record:
    """The same cell with so many steps of a width, of so many ms each."""
    (round_,) = record.rounds
    assert round_.telemetry is not None
    times = {str(width): StepTime(n=n, mean_ms=ms) for width, n, ms in steps}
    return replace(
        record, rounds=(replace(round_, telemetry=replace(round_.telemetry, step_ms_by_width=times)),)
    )


def test_temperatures_and_runs_are_blocks_of_their_own(cells_of: Cells) -> None:
    """Block 1 of one temperature lies hours from block 1 of another: no step is divided by the other's."""
    cold = [with_steps(each, (1, 5, 10.0)) for each in cells_of("none", blocks=1)]
    hot = [
        replace(with_steps(each, (2, 5, 60.0)), cell=replace(each.cell, temperature=0.7))
        for each in cells_of("mtp1", blocks=1)
    ]
    steps, _ = steps_of([[*cold, *hot]], first_block=4)
    assert {step.block for step in steps} == {4, 5}
    found = curve(steps)
    assert found is not None
    assert found.series == {}
    of_runs, _ = steps_of([cold, cold])
    assert {step.block for step in of_runs} == {1, 2}


def test_the_commonest_width_alone_where_that_is_asked(cells_of: Cells) -> None:
    """The last, shorter draft of a drafter that decodes builds its graph anew: it may be left out."""
    (record, *_) = cells_of("mtp1", blocks=1)
    cell = with_steps(record, (4, 9, 20.0), (2, 1, 50.0))
    assert {step.tokens for step in steps_of([[cell]])[0]} == {2, 4}
    assert {step.tokens for step in steps_of([[cell]], commonest=True)[0]} == {4}


def test_what_was_disturbed_or_failed_is_in_no_curve(cells_of: Cells, shown: Callable[..., Shown]) -> None:
    """Nor in the report's: a cell that another program slowed down a hundred times moves no point of it."""
    cells = cells_of("none", "mtp1")
    assert all(map(is_timed, cells))
    slow = with_steps(cells[-1], (2, 1000, 900.0))
    assert not is_timed(replace(slow, outcome=Outcome("inert")))
    for mark in (Disturbance(contended=("x",)), Disturbance(throttled=("x",))):
        disturbed = replace(slow, disturbance=mark)
        assert not is_timed(disturbed)
        told = [
            [
                figure.table
                for figure in build(shown(those), catalogue()).models[0].figures
                if "-curve" in figure.id
            ]
            for those in ([*cells[:-1], disturbed], [*cells[:-1], slow])
        ]
        assert told[0] != told[1]
        rows = told[0][0]
        assert rows is not None
        assert {row[5].text for row in rows.rows} == {str(60 * (len(cells_of("mtp1")) - 1))}
