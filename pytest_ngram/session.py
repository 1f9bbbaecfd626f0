"""One session: the matrix, the servers that its cells need, and the ledger that they end up in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest_ngram
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.evidence.room import GateRoom, Places
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.evidence.store import session_folder
from pytest_ngram.files import locked
from pytest_ngram.matrix.plan import PlannedCell, Start, order_lines
from pytest_ngram.matrix.prompts import PromptSet
from pytest_ngram.measure.cell import CellPlan, CellRun, RestoredCell, failed_record, outcome_of
from pytest_ngram.measure.clock import CLOCK
from pytest_ngram.measure.host import processor
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger, open_ledger
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.setup import Setup, read_setup
from pytest_ngram.options import Settings
from pytest_ngram.record import Prompt, Record, RunFile, pack_tokens
from pytest_ngram.table.build import LoadedTable
from pytest_ngram.table.build.for_matrix import Tables


class Session:
    """What fixtures and hooks share. Make one with `open`.

    Args:
        setup: the matrix and its cells.
        settings: what the user asked for.
        factory: starts servers of the engine that the user chose.
        ledger: where results go.
        warn: called with what the user should know at once.
    """

    def __init__(
        self,
        setup: Setup,
        settings: Settings,
        factory: Factory,
        ledger: Ledger,
        warn: Callable[[str], None],
    ) -> None:
        self.setup = setup
        self.settings = settings
        self.ledger = ledger
        self._factory = factory
        self._models = Models(setup.matrix, setup.base, settings.cache)
        self._servers = Servers(
            setup.matrix,
            self._models,
            factory,
            logs=settings.logs / f"{ledger.path.stem}-{os.getpid()}",
            force=settings.force,
            load_deadline_s=settings.load_deadline_s,
            first_serial=ledger.next_serial,
            on_start=ledger.add_start,
            warn=warn,
        )
        self._tables = Tables(setup, self._models, self._servers, settings.cache / "tables", warn)
        self._cells = {cell.id: cell for cell in setup.cells}
        self._chosen: list[PlannedCell] = []
        self._prompts: dict[tuple[str, str], tuple[int, ...]] = {}
        self._alone = ExitStack()
        self._lock: Path | None = settings.cache / "measuring.lock"
        self._warn = warn

    @classmethod
    def open(cls, settings: Settings, warn: Callable[[str], None]) -> Session:
        """Read the matrix and the journal to resume. Raises `NgramError`; starts nothing."""
        choice = choose(settings.llama_server, settings.engine_label)
        factory = Factory(choice, cache_dir=settings.cache, warn=warn)
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
        return cls(setup, settings, factory, ledger, warn)

    def choose(self, cell_ids: Sequence[str]) -> None:
        """Say which cells the session will run, in order."""
        self._chosen = [self._cells[cell_id] for cell_id in cell_ids]
        self.ledger.choose(self._chosen, self.setup.matrix)
        self.ledger.order = order_lines(self._chosen)

    def missing_files(self) -> list[str]:
        """Say which files of the chosen cells are not there."""
        return self.setup.missing_files(self._chosen)

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
            self.setup, settings.models, servers, places, update=settings.gates.update, command=command
        )

    def is_restored(self, start: Start) -> bool:
        """Whether a resumed journal holds every chosen cell of a start."""
        cells = [planned.cell for planned in self._chosen if planned.start == start]
        return bool(cells) and all(cell in self.ledger.restored for cell in cells)

    def serve(self, start: Start) -> Server:
        """Start the server of a start. Raises `NgramError`."""
        self._look_for_others()
        cpu, _cores, isa = processor()
        self.ledger.check_model(start.model, self._models.open(start.model).record)
        table = self._table_of(start)
        self.ledger.check_table(start.model, start.config, table.table if table else None)
        self.ledger.check_host(cpu, isa)
        server = self._servers.serve(start, table.path if table else None)
        try:
            self.ledger.check_engine(server.engine.describe())
        except RecordError:
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
        table = self._table_of(planned.start)
        plan = CellPlan(
            planned=planned,
            seed=self.setup.matrix.seed,
            hang_after_s=self.setup.matrix.hang_after_s,
            model=self._models.open(planned.start.model).record,
            table=table.table if table else None,
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
            record = failed_record(
                planned, error or RuntimeError("never run"), self._models.known(planned.start.model)
            )
        else:
            record = run.record(outcome_of(error))
        self.ledger.add(record)
        return record

    def run_file(self) -> RunFile:
        """Return the top-level object of the saved JSON."""
        return self.ledger.run_file()

    def close(self) -> None:
        """Close the journal, and let others measure."""
        self.ledger.close()
        self._alone.close()

    def _look_for_others(self) -> None:
        """Hold the host's lock while servers run; say so if another run of this user measures already."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            self._alone.enter_context(locked(lock, 0.0))
        except TimeoutError:
            self._warn("another run is measuring on this host: each slows the other, trust neither")
        except OSError:
            return  # a cache that cannot be written is told where it is needed

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
                    model=model, prompt=planned.prompt, prompt_set=planned.prompt_set, tokens=pack_tokens(ids)
                )
            )
            self._prompts[key] = ids
        return self._prompts[key]
