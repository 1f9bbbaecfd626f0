"""What a session has measured so far, and the journal that it is appended to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import structs

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.judge import inert
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.journal import Budget, Header, Journal, Saved, read
from pytest_ngram.measure.same_engine import differences
from pytest_ngram.record import (
    ECHO,
    Cell,
    Engine,
    Model,
    Outcome,
    Prompt,
    Record,
    Run,
    RunFile,
    ServerStart,
    Table,
)


class Ledger:
    """Collects records, starts and prompts of one session and writes each to the journal as it comes.

    Args:
        path: the journal, made at the first entry so that a session that measures nothing leaves no file.
        header: what the run is of.
        saved: what a journal that is resumed held.
    """

    def __init__(self, path: Path, header: Header, saved: Saved | None = None) -> None:
        self.path = path
        self.header = header
        self.records: list[Record] = []
        self.restored: dict[Cell, Record] = {}
        self.order: list[str] = []
        self.planned_cells = 0
        self.budget: Budget | None = None
        self._pending: set[Cell] = set()
        self._saved = saved
        self._starts = list(saved.starts) if saved else []
        self._prompts = {(p.model, p.prompt): p for p in saved.prompts} if saved else {}
        self._journal: Journal | None = None
        self._unwritten: set[Cell] = set()
        self._begin_s = time.monotonic()

    def choose(self, cells: Sequence[PlannedCell], matrix: MatrixSpec) -> None:
        """Note which cells the session will run, and which of them the resumed journal already holds."""
        self.planned_cells = len(cells)
        self._pending = {planned.cell for planned in cells}
        self.restored |= self.restorable(cells, matrix)

    def restorable(self, cells: Sequence[PlannedCell], matrix: MatrixSpec) -> dict[Cell, Record]:
        """Return what the resumed journal holds of the cells that a session would run.

        A cell that failed is measured again. So are all cells of a start whose config keeps state between
        requests, unless one server answered all of them: another one has not seen the prompts before.
        """
        done = self._done
        if not done:
            return {}
        by_start: dict[str, list[Cell]] = {}
        for planned in cells:
            by_start.setdefault(planned.start.id, []).append(planned.cell)
        restored = {}
        for planned in cells:
            stateful = matrix.configs[planned.start.config].stateful
            if planned.cell in done and (not stateful or _of_one_server(by_start[planned.start.id], done)):
                restored[planned.cell] = done[planned.cell]
        return restored

    @property
    def saved(self) -> Saved | None:
        """What the resumed journal held; None for a new run."""
        return self._saved

    @property
    def saved_budget(self) -> Budget | None:
        """What a budget chose for the resumed run; None where it had none."""
        return self._saved.budget if self._saved is not None else None

    @cached_property
    def _done(self) -> dict[Cell, Record]:
        return {r.cell: r for r in self._saved.cells if r.outcome.status == "ok"} if self._saved else {}

    @property
    def next_serial(self) -> int:
        """The number of the next start, counted through all sessions of the journal."""
        return max((start.serial for start in self._starts), default=0) + 1

    def check_table(self, model: str, config: str, table: Table | None) -> None:
        """Raise `RecordError` if restored cells of this config were measured with another table."""
        for record in self.restored.values():
            then = structs.replace(record.table, leakage=None) if record.table is not None else None
            if (record.cell.model, record.cell.config) == (model, config) and then != table:
                raise RecordError(
                    f"the journal's cells of {config!r} were measured with another table",
                    checked=[f"then {then}", f"now {table}"],
                    fix="the corpus or its table changed: start a new run, without --ngram-resume",
                )

    def check_draft(self, model: str, config: str, draft: Model | None) -> None:
        """Raise `RecordError` if restored cells of this config were drafted by another second model."""
        now = draft.sha256 if draft is not None else None
        for record in self.restored.values():
            then = record.draft_model.sha256 if record.draft_model is not None else None
            if (record.cell.model, record.cell.config) == (model, config) and then != now:
                raise RecordError(
                    f"the journal's cells of {config!r} were measured with another draft model",
                    checked=[f"then sha256 {then}", f"now sha256 {now}"],
                    fix="start a new run, without --ngram-resume",
                )

    def check_host(self, cpu: str | None, isa: tuple[str, ...] | None) -> None:
        """Raise `RecordError` if restored cells were measured on another processor."""
        for record in self.restored.values():
            then = record.host
            if then is not None and (then.cpu, then.isa) != (cpu, isa):
                raise RecordError(
                    "the journal's cells were measured on another processor",
                    checked=[f"then {then.cpu}", f"now {cpu}"],
                    fix="go on where the run began, or start a new one without --ngram-resume",
                )

    def check_model(self, name: str, model: Model) -> None:
        """Raise `RecordError` if restored cells of this model were measured on another file."""
        for record in self.restored.values():
            if record.cell.model == name and record.model is not None and record.model.sha256 != model.sha256:
                raise RecordError(
                    f"the journal's cells of {name!r} were measured on another model file",
                    checked=[f"then {record.model.sha256[:16]}…", f"now {model.sha256[:16]}…"],
                    fix="start a new run, without --ngram-resume",
                )

    def check_engine(self, engine: Engine, model: str) -> None:
        """Raise `RecordError` if restored cells are of another build, or of another server at a URL."""
        for record in self.restored.values():
            same_model = record.cell.model == model
            found = record.engine and differences(record.engine, engine, same_model=same_model)
            if found:
                raise RecordError(
                    "the journal's cells were measured by another engine",
                    checked=found,
                    fix="go on with that engine, or start a new run without --ngram-resume",
                )

    def add(self, record: Record) -> None:
        """Keep a cell that ended. Raises `RecordError` if it cannot be written; it is kept in memory then."""
        self.records.append(record)
        self.leave_out(record.cell)
        if record.cell not in self.restored:
            self._unwritten.add(record.cell)
            self._open().cell(record)
            self._unwritten.discard(record.cell)

    def leave_out(self, cell: Cell) -> None:
        """Wait for this cell no longer: its test was skipped."""
        self._pending.discard(cell)

    def alike(self, cell: Cell) -> list[Record] | None:
        """Return the records of a cell's model, config and temperature; None until the last of them ended."""
        if any(_group(other) == _group(cell) for other in self._pending):
            return None
        return [record for record in self.records if _group(record.cell) == _group(cell)]

    def judge(self, records: Sequence[Record], outcome: Outcome) -> list[Record]:
        """Give those of these records that ended well another outcome, and return them all.

        The journal keeps what was measured: a run that goes on with it comes to the same outcome, or to
        another one where the matrix now says that it was expected.
        """
        judged = {record.cell: record for record in inert.apply(records, outcome)}
        self.records = [judged.get(record.cell, record) for record in self.records]
        return list(judged.values())

    def add_start(self, start: ServerStart) -> None:
        """Keep a start of an engine."""
        self._starts.append(start)
        self._open().start(start)

    def add_prompt(self, prompt: Prompt) -> None:
        """Keep the ids of a prompt, once per model; other ids than before are an error.

        Raises:
            RecordError: the same prompt became other ids: template or tokenizer changed in between.
        """
        known = self._prompts.setdefault((prompt.model, prompt.prompt), prompt)
        if known is prompt:
            self._open().prompt(prompt)
        elif known.tokens != prompt.tokens:
            raise RecordError(
                f"prompt {prompt.prompt!r} becomes other token ids on {prompt.model!r} than before",
                checked=[
                    "the ids that this run's server gives, and those given earlier in the run or journal"
                ],
                fix="template or tokenizer changed: start a new run, without --ngram-resume",
            )

    def run_file(self) -> RunFile:
        """Return the top-level object of the saved JSON."""
        return RunFile(
            run=Run(
                version=self.header.version,
                profile=self.header.profile,
                matrix_sha256=self.header.matrix_sha256,
                seed=self.header.seed,
                order=tuple(self.order),
                starts=tuple(self._starts),
                wall_s=time.monotonic() - self._begin_s,
                planned_cells=self.planned_cells,
                measured_cells=len(self.records),
                resumed_from=self.resumed_from,
                resumed_cells=len(self.restored),
            ),
            prompts=tuple(self._prompts.values()),
            failed_cells=tuple(self.failed()),
        )

    def failed(self) -> Iterable[Record]:
        """Return the records whose outcome is not ok."""
        return (record for record in self.records if record.outcome.status != "ok")

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    @property
    def kept_cells(self) -> int:
        """How many of the cells that ended are in the journal; a full disk takes no more of them."""
        return sum(record.cell not in self._unwritten for record in self.records)

    @property
    def begun(self) -> bool:
        """Whether anything was written."""
        return self._journal is not None

    @property
    def resumed_from(self) -> str | None:
        """The journal that the run goes on with; None for a new run."""
        return self.path.name if self._saved else None

    def _open(self) -> Journal:
        if self._journal is None:
            if self._saved is not None:
                self._journal = Journal.append_to(self.path, self._saved)
            else:
                self._journal = Journal.create(self.path, self.header)
            if self.budget is not None and self.budget != self.saved_budget:
                self._journal.budget(self.budget)
        return self._journal


def open_ledger(
    header: Header, *, resume: Path | None, journal: Path | None, default: Callable[[], Path]
) -> Ledger:
    """Return a new ledger, or one that goes on with a journal.

    Raises:
        RecordError: the journal cannot be read.
        OptionError: it belongs to another matrix, profile or version.
    """
    if resume is None:
        return Ledger(journal or default(), header)
    saved = read(resume)
    if saved.header != header:
        names = [n for n in Header.__struct_fields__ if getattr(saved.header, n) != getattr(header, n)]
        raise OptionError(
            f"the journal is of another run: {', '.join(names)} differ",
            checked=[f"{n}: then {getattr(saved.header, n)}, now {getattr(header, n)}" for n in names],
            fix="give the interrupted run's options and matrix, or start anew without --ngram-resume",
        )
    return Ledger(resume, header, saved)


def _group(cell: Cell) -> tuple[str, str, float, bool]:
    """What is judged together; a type that drafts on a corpus' own prompts alone did not take part."""
    return cell.model, cell.config, cell.temperature, cell.prompt_set == ECHO


def _of_one_server(cells: Sequence[Cell], done: dict[Cell, Record]) -> bool:
    """Whether all of these cells ended well on one and the same server."""
    servers = [done[cell].server if cell in done else None for cell in cells]
    return None not in servers and len({server.serial for server in servers if server is not None}) == 1
