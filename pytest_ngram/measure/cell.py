"""A cell while it runs: its requests, and the record they become."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add

from pytest_ngram import record
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.matrix.plan import PlannedCell, request_seed
from pytest_ngram.measure import host
from pytest_ngram.measure.again import Again, Quiet
from pytest_ngram.measure.clock import VirtualClock
from pytest_ngram.measure.events import SILENT, Asking, Listener, waiting
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.sampler import Span
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.sysfs import Absent, Sensor
from pytest_ngram.record import Outcome, Record, Round, Status
from pytest_ngram.verdict.summary import seconds_per_token


@dataclass(frozen=True)
class CellPlan:
    """All that a cell needs besides its server.

    Args:
        planned: the cell.
        seed: the matrix's seed, from which the requests get theirs.
        hang_after_s: no new token for this long is a hang.
        model: what is known of its model; None where the model could not be opened.
        table: the table that its server loads.
        draft_model: the second model, for a config that drafts with one.
        listener: hears of each request.
        quiet: when a request is measured again.
    """

    planned: PlannedCell
    seed: int
    hang_after_s: float
    model: record.Model | None
    table: record.Table | None
    draft_model: record.Model | None = None
    listener: Listener = SILENT
    quiet: Quiet = field(default_factory=Quiet)


class CellRun:
    """Measures a cell on a running server; each request moves the clock by its seconds per token."""

    def __init__(self, plan: CellPlan, server: Server, prompt: tuple[int, ...], clock: VirtualClock) -> None:
        self.rounds = plan.planned.rounds
        self._plan = plan
        self._server = server
        self._prompt = prompt
        self._clock = clock
        self._done: list[Round] = []
        self._asked: record.Server | None = None
        self._spans: list[Span] = []
        self._memory: record.Memory | None = None
        self._host: record.Host | None = None
        self._before: Sensor | Absent | None = None
        self._again = Again(plan.quiet, stateful=server.stateful)
        clock.rest()

    def request(self) -> Round:
        """Send the next request of the cell, and again while others disturb it and repeats are left.

        Raises:
            EngineError: the server refused, died or hung, or generated too little to time.
        """
        server = self._server.ready()
        planned = self._plan.planned
        probe = host.Probe(server.engine.pid, *host.this_machine(), self._plan.quiet.sensor)
        if self._before is None:
            self._before = probe.temperature()
            self._asked = record.Server(serial=server.serial, answered=server.answered)
        request = CompletionRequest(
            prompt=self._prompt,
            n_predict=planned.n_predict,
            temperature=planned.start.temperature,
            seed=request_seed(self._plan.seed, planned.prompt, planned.start.block, len(self._done)),
        )
        round_, span = self._again.quietest(
            lambda: self._measured(server, request, probe), lambda span: probe.host(span, probe.temperature())
        )
        server.answered += 1
        self._done.append(round_)
        self._spans.append(span)
        whole = reduce(add, self._spans)
        tokens = sum(each.predicted_n or 0 for each in self._done)
        self._host = probe.host(whole, self._before)
        self._memory = probe.memory(whole, tokens, server.anon_mb)
        self._clock.advance(_timed(round_))
        return round_

    def _measured(self, server: Server, request: CompletionRequest, probe: host.Probe) -> tuple[Round, Span]:
        planned = self._plan.planned
        asking = Asking(planned.id, planned.n_predict)
        with server.failing_fast(), waiting(self._plan.listener, asking):
            round_, span = probe.watch(
                lambda: measure(
                    server,
                    request,
                    hang_after_s=self._plan.hang_after_s,
                    on_progress=lambda seen: self._plan.listener.went_on(asking.seen(seen)),
                )
            )
        server.anon_mb.append(probe.anon_mb())
        return round_, span

    @property
    def asked(self) -> bool:
        """Whether any request was answered."""
        return bool(self._done)

    def record(self, outcome: Outcome) -> Record:
        """Return the record of what was measured."""
        return Record(
            cell=self._plan.planned.cell,
            model=self._plan.model,
            engine=self._server.describe(),
            server=self._asked,
            rounds=tuple(self._done),
            memory=self._memory,
            host=self._host,
            table=self._plan.table,
            draft_model=self._plan.draft_model,
            disturbance=self._again.disturbance(self._host) if self._host is not None else None,
            outcome=outcome,
        )


class RestoredCell:
    """A cell that a journal already holds: its rounds move the clock again, nothing is asked of a server."""

    def __init__(self, saved: Record, clock: VirtualClock) -> None:
        self.rounds = len(saved.rounds)
        self._saved = saved
        self._next = iter(saved.rounds)
        self._clock = clock
        clock.rest()

    def request(self) -> Round:
        """Return the next saved round."""
        round_ = next(self._next)
        self._clock.advance(_timed(round_))
        return round_

    @property
    def asked(self) -> bool:
        """Whether the journal holds any request."""
        return bool(self._saved.rounds)

    def record(self, outcome: Outcome) -> Record:
        """Return the record as it was saved."""
        return self._saved


def outcome_of(error: BaseException | None) -> Outcome:
    """Return the outcome that an exception means; ok for None.

    What the package found wrong before it asked anything is `refused`; what nobody foresaw, a failing
    assertion of the user's test included, is `error`.
    """
    if error is None:
        return Outcome(status="ok")
    status: Status = "error"
    tail: tuple[str, ...] = ()
    if isinstance(error, EngineError):
        status, tail = _status(error.outcome), error.log_tail
    elif isinstance(error, NgramError):
        status = "refused"
    # without the log's tail, which has a field of its own
    reason = (
        NgramError.__str__(error) if isinstance(error, NgramError) else f"{type(error).__name__}: {error}"
    )
    return Outcome(status=status, reason=reason, log_tail=tail)


def failed_record(
    planned: PlannedCell,
    error: BaseException,
    model: record.Model | None,
    table: record.Table | None = None,
) -> Record:
    """Return the record of a cell that sent no request; with its table, where that is why."""
    return Record(
        cell=planned.cell,
        model=model,
        engine=None,
        server=None,
        rounds=(),
        memory=None,
        host=None,
        table=table,
        outcome=outcome_of(error),
    )


def _timed(round_: Round) -> float:
    seconds = seconds_per_token(round_)
    if seconds is None:
        raise EngineError(
            "too little was generated to time a token",
            outcome="refused",
            checked=[f"predicted_n {round_.predicted_n}, stop {round_.stop}"],
            fix="take a prompt that the model answers with two tokens or more",
        )
    return seconds


def _status(outcome: str) -> Status:
    known: dict[str, Status] = {"crash": "crash", "hang": "hang", "oom": "oom", "refused": "refused"}
    return known[outcome]
