"""The pace of a run: what is left is told from what was measured, and the plan is held against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from pytest_ngram.matrix.estimate import estimate
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.timings import Answer, ModelTimings, Source, Timing
from pytest_ngram.measure.events import Building, Loading, Silent, Standing, waiting
from pytest_ngram.measure.pace import Pace
from pytest_ngram.record import Record, Round, ServerStart


class Heard(Silent):
    """Keeps where the run stands, and what it waits for."""

    def __init__(self) -> None:
        self.standings: list[Standing] = []
        self.events: list[str] = []

    def began(self, event: object) -> None:
        self.events.append(f"+{type(event).__name__}")

    def ended(self, event: object) -> None:
        self.events.append(f"-{type(event).__name__}")

    def stands(self, standing: Standing) -> None:
        self.standings.append(standing)


class Run:
    """A run on a clock that stands still unless it is told to go on."""

    def __init__(
        self, cells: Sequence[PlannedCell], record_of: Callable[..., Record], *sources: Source
    ) -> None:
        self.now_s = 100.0
        self.heard = Heard()
        self.pace = Pace(self.heard, lambda: self.now_s)
        self.pace.plan(cells, (), estimate(cells, (), sources), sources)
        self._record_of = record_of

    def start(self, planned: PlannedCell, load_s: float = 2.0) -> None:
        self.pace.serving(planned.start)
        self.now_s += load_s
        start = planned.start
        self.pace.started(
            ServerStart(1, start.model, start.config, 0.0, start.block, start.pass_, load_s, 0.0)
        )

    def cell(self, planned: PlannedCell, wall_s: float = 4.0, gap_s: float = 1.0, status: str = "ok") -> None:
        self.now_s += wall_s + gap_s
        fields = dict.fromkeys(Round.__struct_fields__) | {"status": "ok", "seed": 1, "wall_s": wall_s}
        fields |= {"prompt_n": 10, "prompt_ms": 500.0, "predicted_n": 8, "predicted_ms": wall_s * 1000 - 500}
        self.pace.done(replace(self._record_of(planned, status), rounds=(Round(**fields),)))

    @property
    def last(self) -> Standing:
        return self.heard.standings[-1]


KNOWN = Source(
    "old run", {"alpha": ModelTimings({"none": Timing(1, 2, 0, 1, 10, 0.5, 7, 3.5, 4)}, {"p": Answer(10)})}
)


def test_the_first_run_gets_an_estimate_too(
    cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """Nothing is known before; after the first cell what is left is told from it: starts, cells, gaps."""
    run = Run(cells, record_of)
    assert (run.last.done, run.last.cells, run.last.left_s) == (0, 8, None)
    run.start(cells[0])
    run.cell(cells[0])
    # one more cell on this server, three more starts with two cells each
    assert run.last.left_s == pytest.approx(3 * (4 + 1) + 4 * (5 + 1) + 3 * 2)
    assert run.last.done == 1
    assert not run.last.at_least


def test_this_runs_own_figures_come_first(cells: list[PlannedCell], record_of: Callable[..., Record]) -> None:
    """A host that is slower today is believed."""
    run = Run(cells, record_of, KNOWN)
    assert run.last.left_s == pytest.approx(4 * 4 + 4 * 5 + 4 * 2)
    run.start(cells[0])
    run.cell(cells[0], wall_s=40.0)
    assert run.last.left_s == pytest.approx(3 * (40 + 1) + 4 * (50 + 1) + 3 * 2)


def test_the_plan_is_held_against_the_real_time(
    cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """One line in the end: planned and real; what was made once is told apart."""
    run = Run(cells, record_of, KNOWN)
    assert run.pace.lines() == []
    for planned in cells:
        if planned.prompt == "p":
            run.start(planned)
        if planned is cells[0]:
            with waiting(run.pace, Building("demo", "alpha")), waiting(run.pace, Loading("x", "a.gguf", 1)):
                run.now_s += 30
        run.cell(planned)
    assert run.pace.lines() == [
        "time: planned 44 s, took 1 min 18 s (30 s of it to make or hash models and tables, once)"
    ]
    assert run.heard.events == ["+Building", "+Loading", "-Loading", "-Building"]
    between = run.pace.measured["alpha"].between
    assert between.per_cell_s == pytest.approx(1)


def test_an_interrupted_run_says_how_far_it_came(
    cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """What was planned is of all cells, so it says so."""
    run = Run(cells, record_of, KNOWN)
    run.start(cells[0])
    run.cell(cells[0])
    assert run.pace.lines() == ["time: 1 of 8 cells took 7.0 s; for all: planned 44 s"]


def test_a_failed_cell_tells_nothing_of_the_others(
    cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """A hang of minutes does not make the rest of the run look as slow."""
    run = Run(cells, record_of, KNOWN)
    run.start(cells[0])
    run.cell(cells[0], wall_s=600.0, gap_s=0.0, status="hang")
    assert run.last.left_s is not None
    assert run.last.left_s < 100
    assert run.pace.lines() == [
        "time: 1 of 8 cells took 10 min 2 s, 1 of 1 cells failed; for all: planned 44 s"
    ]


def test_what_was_measured_is_given_once(cells: list[PlannedCell], record_of: Callable[..., Record]) -> None:
    """Closing a session twice does not count its figures twice."""
    run = Run(cells, record_of)
    run.start(cells[0])
    run.cell(cells[0])
    assert run.pace.take_measured()["alpha"].configs["none"].rounds == 1
    assert run.pace.take_measured() == {}


def test_a_budget_that_was_passed_is_told(cells: list[PlannedCell], record_of: Callable[..., Record]) -> None:
    """The closing line says by how much; within the budget it says nothing of it."""
    for budget_s, said in ((7.0, ""), (6.0, ", 1.0 s over the budget of 6.0 s")):
        run = Run(cells[:1], record_of, KNOWN)
        run.pace.plan(cells[:1], (), estimate(cells[:1], (), [KNOWN]), [KNOWN], budget_s)
        run.start(cells[0])
        run.cell(cells[0])
        (line,) = run.pace.lines()
        assert line.endswith(f"took 7.0 s{said}")
