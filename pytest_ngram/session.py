"""One session: the matrix, the servers that its cells need, and the ledger that they end up in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest_ngram
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.evidence.for_verdict import Taken, take
from pytest_ngram.evidence.room import GateRoom, Places
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.evidence.store import session_folder
from pytest_ngram.judge.inert import Finding, judge
from pytest_ngram.matrix.plan import PlannedCell, Start, order_lines
from pytest_ngram.matrix.prompts import PromptSet
from pytest_ngram.matrix.timings import Gathered
from pytest_ngram.measure.again import Quiet
from pytest_ngram.measure.alone import LOCK, Alone
from pytest_ngram.measure.cell import CellPlan, CellRun, RestoredCell, failed_record, outcome_of
from pytest_ngram.measure.clock import CLOCK
from pytest_ngram.measure.entry import check, enter
from pytest_ngram.measure.events import SILENT, Listener
from pytest_ngram.measure.foresight import Asked, Foresight
from pytest_ngram.measure.host import processor, this_machine
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger, open_ledger
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.pace import Pace
from pytest_ngram.measure.probe import Chats, probe
from pytest_ngram.measure.remembered import engine_key
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.setup import Setup, read_setup
from pytest_ngram.measure.unfit import check_context, check_start, unfit
from pytest_ngram.options import Settings
from pytest_ngram.record import Cell, Prompt, Record, RunFile, ServerStart, pack_tokens
from pytest_ngram.table.build import LoadedTable
from pytest_ngram.table.build.for_matrix import Tables
from pytest_ngram.table.build.leak_guard import LeakGuard
from pytest_ngram.table.build.needs import TableNeeds
from pytest_ngram.table.build.token_cache import token_cache
from pytest_ngram.verdict.types import GateResults


class Session:
    """What fixtures and hooks share. Make one with `open`.

    Args:
        setup: the matrix and its cells.
        settings: what the user asked for.
        factory: starts servers of the engine that the user chose.
        ledger: where results go.
        warn: called with what the user should know at once.
        listener: hears what the run waits for.
    """

    def __init__(
        self,
        setup: Setup,
        settings: Settings,
        factory: Factory,
        ledger: Ledger,
        *,
        warn: Callable[[str], None],
        listener: Listener = SILENT,
    ) -> None:
        self.setup = setup
        self.settings = settings
        self.ledger = ledger
        self._factory = factory
        quiet = settings.quiet
        self.pace = Pace(listener, settle_s=quiet.rest.settle_s)
        self._quiet = Quiet(
            quiet.bounds,
            quiet.repeats,
            has_time=lambda seconds: self.pace.has_time(seconds + quiet.rest.settle_s),
            rest=lambda: enter(quiet.rest).waited_s,
            sensor=quiet.rest.sensor,
        )
        self._models = Models(setup.matrix, setup.base, settings.cache, self.pace)
        self._new_servers = partial(
            Servers,
            setup.matrix,
            self._models,
            factory,
            logs=settings.logs / f"{ledger.path.stem}-{os.getpid()}",
            force=settings.force,
            load_deadline_s=settings.load_deadline_s,
            table_need=TableNeeds(factory, settings.cache, warn=warn),
            warn=warn,
            listener=self.pace,
            rest=quiet.rest,
        )
        self._servers = self._new_servers(first_serial=ledger.next_serial, on_start=self._started)
        self._tables = Tables(
            setup,
            self._models,
            self._servers,
            settings.cache / "tables",
            token_cache=lambda facts: token_cache(settings.cache, facts, engine_key(factory, settings.cache)),
            warn=warn,
            listener=self.pace,
        )
        self._leaks = LeakGuard(setup, self._tables, warn)
        asked = Asked(
            settings.estimate_from, settings.probe, settings.budget_s, settings.cache, quiet.rest.settle_s
        )
        self.foresight = Foresight(asked, setup, factory, ledger, probe=self._probe, warn=warn)
        self._own_model = factory.choice.kind != "url"  # else the file here need not be what is served
        self._cells = {cell.id: cell for cell in setup.cells}
        self._chosen: list[PlannedCell] = []
        self._prompts: dict[tuple[str, str], tuple[int, ...]] = {}
        self._alone = Alone(settings.cache / LOCK, warn)
        self._judged: Taken | None = None

    @classmethod
    def open(cls, settings: Settings, warn: Callable[[str], None], listener: Listener = SILENT) -> Session:
        """Read the matrix and the journal to resume. Raises `NgramError`; starts nothing."""
        check(settings.quiet.rest, this_machine()[0])
        choice = choose(settings.llama_server, settings.engine_label)
        factory = Factory(choice, cache_dir=settings.cache, told=settings.llama_server_flags, warn=warn)
        setup = read_setup(settings.matrix, settings.profile, settings.models, factory.vocabulary)
        header = Header(
            journal=JOURNAL,
            version=pytest_ngram.__version__,
            matrix_sha256=setup.sha256,
            profile=setup.profile,
            seed=setup.matrix.seed,
        )
        ledger = open_ledger(
            header,
            resume=settings.resume,
            journal=settings.journal,
            default=lambda: (
                settings.logs.parent / f"journal-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
            ),
        )
        return cls(setup, settings, factory, ledger, warn=warn, listener=listener)

    def within_budget(self, cell_ids: Sequence[str], *, only_look: bool) -> set[str]:
        """Return the cells to keep of those that would run: all where there is no budget.

        Args:
            cell_ids: what `-k` left.
            only_look: nothing will be measured.

        Raises:
            OptionError: not even the least fits the budget.
        """
        wanted = set(cell_ids)
        cells = [cell for cell in self.setup.cells if cell.id in wanted]
        self.foresight.prepare(cells, only_look=only_look)
        cut = self.foresight.fit(cells)
        return wanted if cut is None else {cell.id for cell in cut.cells}

    def choose(self, cell_ids: Sequence[str]) -> None:
        """Say which cells the session will run, in order."""
        self._chosen = [self._cells[cell_id] for cell_id in cell_ids]
        self.ledger.choose(self._chosen, self.setup.matrix)
        self.ledger.order = order_lines(self._chosen)
        self.estimate = self.foresight.estimate(self._chosen)
        known, budget_s = self.foresight.sources, self.foresight.budget_s
        self.pace.plan(self._chosen, self.ledger.restored, self.estimate, known, budget_s)

    def missing_files(self) -> list[str]:
        """Say what of the chosen cells cannot be measured: a file is missing, a model lacks a thing."""
        missing = self.setup.missing_files(self._chosen)
        if not self._own_model:
            missing = [f"{text} (a copy is needed here, to compare what is served with)" for text in missing]
        return [*missing, *unfit(self.setup, self._models, self._chosen)] if self._own_model else missing

    def cell(self, cell_id: str) -> PlannedCell:
        """Return a cell by its id."""
        return self._cells[cell_id]

    def table(self, model: str, table: str) -> LoadedTable:
        """Return a table of the matrix for a model, built if need be. Raises `NgramError`."""
        return self._tables.get(model, table)

    def prompt_set(self, name: str) -> PromptSet:
        """Return a prompt set of the matrix. Raises `OptionError` for a name that it lacks."""
        return self.setup.prompt_set(name)

    def gates(self, folder: Path, run: str, command: str) -> GateRoom:
        """Return the gates of this session.

        Args:
            folder: where the gate tests are.
            run: names the session; xdist workers of one session give the same.
            command: what the user types to have goldens stored.

        Raises:
            NgramError: the known issues beside the gates cannot be read.
        """
        settings = self.settings
        own = settings.logs.parent / "gates"
        servers = GateServers(
            self.setup.matrix,
            self._models,
            self._factory,
            self._servers,
            table_of=lambda model, table: self.table(model, table).path,
            logs=session_folder(own, run) / "logs",
            load_deadline_s=settings.load_deadline_s,
        )
        places = Places(folder, settings.gates.golden or folder / "golden", own / run, settings.cache)
        return GateRoom(
            self.setup,
            settings.models,
            servers,
            places,
            update=settings.gates.update,
            command=command,
            strict_golden=settings.gates.strict_golden,
        )

    def take_gates(self) -> None:
        """Read the report of the gates that the verdict is to know, before hours are spent.

        Raises:
            OptionError: it is none, or it is of another build than this engine or the restored cells.
        """
        if self.settings.gates_of is None or self._judged is not None:
            return
        judged = take(self.settings.gates_of)
        judged.check_build(self._factory.build)
        judged.results(self.ledger.restored.values())
        self._judged = judged

    def gate_results(self) -> GateResults | None:
        """Return what the gates say of the cells that ended; None without a report. Raises `OptionError`."""
        return self._judged.results(self.ledger.records) if self._judged is not None else None

    def is_restored(self, start: Start) -> bool:
        """Whether a resumed journal holds every chosen cell of a start."""
        cells = [planned.cell for planned in self._chosen if planned.start == start]
        return bool(cells) and all(cell in self.ledger.restored for cell in cells)

    def serve(self, start: Start) -> Server:
        """Start the server of a start. Raises `NgramError`."""
        self.pace.serving(start)
        self._alone.enter()
        cpu, _cores, isa = processor()
        model = self._models.open(start.model)
        self.ledger.check_model(start.model, model.record)
        cells = [cell for cell in self._chosen if cell.start == start]
        if self._own_model:
            check_start(self.setup, model.facts, cells)
        self._leaks.look_ahead(start.model, self._chosen, self.ledger.restored)
        draft = self._models.open_draft(start.model, start.config)
        self.ledger.check_draft(start.model, start.config, draft.record if draft else None)
        table = self._table_of(start)
        self.ledger.check_table(start.model, start.config, table.table if table else None)
        self.ledger.check_host(cpu, isa)
        self._leaks.check_start(cells)
        server = self._servers.serve(start, table.path if table else None)
        try:
            self.ledger.check_engine(server.engine.describe(), start.model)
            if self._judged is not None:
                self._judged.check(server.engine.describe())
        except (RecordError, OptionError):
            server.stop()
            raise
        return server

    def run(self, planned: PlannedCell, server: Server | None) -> CellRun | RestoredCell:
        """Return a cell ready to send its requests; one from the journal needs no server."""
        saved = self.ledger.restored.get(planned.cell)
        if saved is not None:
            return RestoredCell(saved, CLOCK)
        if server is None:
            raise RecordError(
                f"cell {planned.id} is neither measured nor to be measured",
                fix="this is a fault of the program; run again without --ngram-resume",
            )
        self._leaks.check(planned)
        draft = self._models.open_draft(planned.start.model, planned.start.config)
        plan = CellPlan(
            planned=planned,
            seed=self.setup.matrix.seed,
            hang_after_s=self.setup.matrix.hang_after_s,
            model=self._models.open(planned.start.model).record,
            table=self._leaks.table_record(planned),
            draft_model=draft.record if draft else None,
            listener=self.pace,
            quiet=self._quiet,
        )
        return CellRun(plan, server, self._prompt(planned, server), CLOCK)

    def finish(
        self, planned: PlannedCell, run: CellRun | RestoredCell | None, error: BaseException | None
    ) -> Record:
        """Keep the record of a cell that ended, whichever way, and return it.

        Raises:
            RecordError: the journal cannot be written.
        """
        if run is not None and error is None and not run.asked:
            error = OptionError(
                "the test of the cell sent no request",
                checked=[planned.id],
                fix="call benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds) in it",
            )
        if run is None:
            model = self._models.known(planned.start.model)
            table = self._leaks.table_record(planned) if self._leaks.is_leak(planned) else None
            record = failed_record(planned, error or RuntimeError("never run"), model, table)
        else:
            record = run.record(outcome_of(error))
        self.ledger.add(record)
        if record.cell not in self.ledger.restored:
            self.pace.done(record)
        return record

    def judge(self, planned: PlannedCell) -> tuple[Finding, list[Record]]:
        """Say whether a config was inert, once the last of its cells has ended; with its changed records."""
        records = None if planned.is_echo else self.ledger.alike(planned.cell)
        if not records:
            return Finding(), []
        matrix, start = self.setup.matrix, planned.start
        abstains = matrix.abstains_of(start.model, start.config)
        finding = judge(records, matrix.configs[start.config].types, abstains, self.prompts_of(planned.cell))
        changed = self.ledger.judge(records, finding.outcome) if finding.outcome is not None else []
        return finding, changed

    def prompts_of(self, cell: Cell) -> int:
        """How many prompts the profile has for a cell's model, config and temperature, chosen or not."""
        alike = (e.cell for e in self.setup.cells if e.start.model == cell.model and not e.is_echo)
        wanted = (cell.config, cell.temperature)
        return len({each.prompt for each in alike if (each.config, each.temperature) == wanted})

    def ran_in_part(self, cell: Cell) -> bool:
        """Whether prompts of the profile were left out for this model, config and temperature."""
        alike = self.ledger.alike(cell) or []
        return len({record.cell.prompt for record in alike}) < self.prompts_of(cell)

    def left_out(self, planned: PlannedCell) -> tuple[Finding, list[Record]]:
        """Note that a cell's test was skipped, and judge its config if this was the last one."""
        self.ledger.leave_out(planned.cell)
        return self.judge(planned)

    def run_file(self) -> RunFile:
        """Return the top-level object of the saved JSON."""
        return self.ledger.run_file()

    def close(self) -> None:
        """Close the journal, keep timings for later estimates, and let others measure. Safe to call twice."""
        self.ledger.close()
        self.foresight.remember(self.pace.take_measured())
        self._alone.leave()

    def _started(self, start: ServerStart) -> None:
        self.ledger.add_start(start)
        self.pace.started(start)

    def _probe(self, model: str, gathered: Gathered, chats: Chats) -> str:
        self._alone.enter()
        servers = self._new_servers(on_start=gathered.add_start)
        return probe(model, self.setup.matrix, servers, gathered, chats)

    def _table_of(self, start: Start) -> LoadedTable | None:
        table = self.setup.matrix.configs[start.config].table
        return self.table(start.model, table) if table is not None else None

    def _prompt(self, planned: PlannedCell, server: Server) -> tuple[int, ...]:
        """The ids of a prompt on a model: its template and tokenizer are asked once."""
        model = planned.start.model
        key = (model, planned.prompt)
        if key not in self._prompts:
            messages, tools = self.setup.chat_of(planned)
            with server.ready().failing_fast():
                text = server.client.apply_template(messages, tools or None)
                ids = server.client.tokenize(text, parse_special=True, add_special=True)
            self.ledger.add_prompt(
                Prompt(
                    model=model,
                    prompt=planned.prompt,
                    prompt_set=planned.prompt_set,
                    tokens=pack_tokens(ids),
                    kind=self.setup.kind_of(planned),
                )
            )
            self._prompts[key] = ids
        check_context(planned, len(self._prompts[key]), server.n_ctx)
        return self._prompts[key]
