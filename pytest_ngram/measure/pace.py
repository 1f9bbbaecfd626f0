"""How a run goes on: what it measured so far, what is left, and at the end planned against real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from pytest_ngram.matrix.duration import said
from pytest_ngram.matrix.estimate import Estimate, Estimator
from pytest_ngram.matrix.plan import PlannedCell, Start
from pytest_ngram.matrix.timings import Between, Gathered, ModelTimings, Source
from pytest_ngram.measure.events import ONCE, Event, Listener, Standing
from pytest_ngram.record import Cell, Record, ServerStart

_LOOK_EVERY_S = 2.0


class Pace:
    """Hears of everything that a run waits for, passes it on, and keeps count.

    Args:
        listener: who shows it.
        now_s: a clock, in seconds.
        settle_s: how long it is rested before each server.
    """

    def __init__(
        self, listener: Listener, now_s: Callable[[], float] = time.monotonic, *, settle_s: float = 0.0
    ) -> None:
        self._listener = listener
        self._now_s = now_s
        self._settle_s = settle_s
        self._gathered = Gathered()
        self._sources: Sequence[Source] = ()
        self._planned: Estimate | None = None
        self._budget_s: float | None = None
        self._left: dict[Cell, PlannedCell] = {}
        self._cells = self._measured = 0
        self._running: set[Start] = set()
        self._begin_s: float | None = None
        self._end_s = self._looked_s = 0.0
        self._left_s: float | None = None
        self._at_least = False
        self._once_s = 0.0
        self._once_began: list[float] = []
        self._between = Between()
        self._window_s = self._counted_s = 0.0  # when the last cell ended, and what is counted since then

    def plan(
        self,
        cells: Sequence[PlannedCell],
        restored: Collection[Cell],
        estimate: Estimate,
        sources: Sequence[Source],
        budget_s: float | None = None,
    ) -> None:
        """Say what the run will do, what was thought of it before, and what it may take."""
        self._budget_s = budget_s
        self._cells = len(cells)
        self._left = {planned.cell: planned for planned in cells if planned.cell not in restored}
        self._planned, self._sources = estimate, sources
        self._tell()

    def serving(self, start: Start) -> None:
        """A server of this start is asked for: the run's time goes on from here."""
        if self._begin_s is None:
            self._begin_s = self._window_s = self._now_s()
        self._running.add(start)

    def started(self, start: ServerStart) -> None:
        """A server is warm."""
        self._gathered.add_start(start)
        rested_s = start.entry.waited_s if start.entry is not None else 0.0
        self._counted_s += start.load_s + start.warmup_s + rested_s

    def done(self, record: Record) -> None:
        """A cell ended, which was not restored."""
        self._gathered.add_record(record)
        self._measured += 1
        self._left.pop(record.cell, None)
        self._end_s = self._now_s()
        if record.outcome.status == "ok":
            self._counted_s += sum(round_.wall_s or 0.0 for round_ in record.rounds)
            self._counted_s += record.disturbance.repeat_s if record.disturbance is not None else 0.0
            gap_s = max(0.0, self._end_s - self._window_s - self._counted_s)
            self._between = Between(self._between.cells + 1, self._between.seconds + gap_s)
        self._window_s, self._counted_s = self._end_s, 0.0
        self._tell()

    def has_time(self, seconds: float) -> bool:
        """Whether the budget, if there is one, has so many seconds more than what is left will take."""
        if self._budget_s is None or self._begin_s is None:
            return True
        left_s, _at_least = self._look()
        return self._now_s() - self._begin_s + (left_s or 0.0) + seconds <= self._budget_s

    @property
    def measured(self) -> dict[str, ModelTimings]:
        """What this run measured, by model; what stood between the cells is the same for all."""
        return {name: replace(model, between=self._between) for name, model in self._gathered.models.items()}

    def take_measured(self) -> dict[str, ModelTimings]:
        """Return what this run measured since this was last asked, so that nothing is kept twice."""
        measured, self._gathered = self.measured, Gathered()
        return measured

    def lines(self) -> list[str]:
        """Return what the plan was worth, to be said at the end; nothing where nothing was measured."""
        if self._begin_s is None or not self._measured:
            return []
        took_s = self._end_s - self._begin_s
        took = said(took_s)
        if self._budget_s is not None and took_s > self._budget_s:
            took += f", {said(took_s - self._budget_s)} over the budget of {said(self._budget_s)}"
        if self._once_s >= 1:
            took += f" ({said(self._once_s)} of it to make or hash models and tables, once)"
        failed = int(self._measured - self._between.cells)
        if failed:
            took += f", {failed} of {self._measured} cells failed"
        planned_s = self._planned.duration_s if self._planned is not None else None
        least = "at least " if self._planned is not None and self._planned.uncounted else ""
        planned = "nothing was known before" if planned_s is None else f"planned {least}{said(planned_s)}"
        if self._left:
            wanted = self._measured + len(self._left)
            return [f"time: {self._measured} of {wanted} cells took {took}; for all: {planned}"]
        return [f"time: {planned}, took {took}"]

    def began(self, event: Event) -> None:
        """Pass it on; what is done once in a run is timed apart."""
        if isinstance(event, ONCE):
            self._once_began.append(self._now_s())
        self._listener.began(event)

    def went_on(self, event: Event) -> None:
        """Pass it on."""
        self._listener.went_on(event)

    def ended(self, event: Event) -> None:
        """Pass it on."""
        if isinstance(event, ONCE) and self._once_began:
            took_s = self._now_s() - self._once_began.pop()
            if not self._once_began and self._begin_s is not None:
                self._once_s += took_s
                self._counted_s += took_s
                self._looked_s += took_s
        self._listener.ended(event)

    def stands(self, standing: Standing) -> None:
        """Pass it on."""
        self._listener.stands(standing)

    def _tell(self) -> None:
        now_s = self._now_s()
        if self._measured <= 1 or not self._left or now_s - self._looked_s >= _LOOK_EVERY_S:
            self._left_s, self._at_least = self._look()
            self._looked_s = now_s
        left_s = None if self._left_s is None else max(0.0, self._left_s - (now_s - self._looked_s))
        self.stands(Standing(self._cells - len(self._left), self._cells, left_s, self._at_least))

    def _look(self) -> tuple[float | None, bool]:
        """What is left: by this run's own figures first, then by those from before."""
        estimator = Estimator([Source("this run", self.measured), *self._sources], self._settle_s)
        kinds = {(planned.start.model, planned.start.config) for planned in self._left.values()}
        known = {kind: estimator.timing(*kind) is not None for kind in kinds}
        if self._left and not any(known.values()):
            return None, True
        left_s = estimator.total_s(self._left.values(), running=self._running)
        uncounted = any(estimator.mean_prompt_n(model) is None for model, _config in kinds)
        return left_s, uncounted or not all(known.values())
