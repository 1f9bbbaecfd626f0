"""Before a bench: which of its prompts are in the corpus of a table, and so are not measured with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from msgspec import structs

from pytest_ngram import record
from pytest_ngram.corpus.leakage import leak
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.measure.setup import Setup
from pytest_ngram.record import Cell, CorpusPlace, Leakage
from pytest_ngram.table.build.for_matrix import Tables


class LeakGuard:
    """Refuses cells whose prompt is in the corpus of their table.

    Args:
        setup: the matrix with its bounds.
        tables: gives the tables and what of the prompts is in them.
        warn: called with what will be refused, and with what cannot be told.
    """

    def __init__(self, setup: Setup, tables: Tables, warn: Callable[[str], None]) -> None:
        self._setup = setup
        self._tables = tables
        self._warn = warn
        self._looked_at: set[tuple[str, str]] = set()
        self._known: set[tuple[str, str | None]] = set()

    def look_ahead(self, model: str, cells: Iterable[PlannedCell], restored: Collection[Cell]) -> None:
        """Look at all cells of a model that will be measured, so that a leak is known before the hours.

        A table that cannot be had is told by its own cells.
        """
        by_table: dict[str, list[PlannedCell]] = {}
        for cell in cells:
            table = self._table_of(cell)
            if table is not None and cell.start.model == model and cell.cell not in restored:
                by_table.setdefault(table, []).append(cell)
        for table, of_table in by_table.items():
            if (model, table) not in self._looked_at:
                self._looked_at.add((model, table))
                with suppress(NgramError):
                    self._tell(model, table, of_table)

    def _tell(self, model: str, table: str, cells: Iterable[PlannedCell]) -> None:
        known = self._tables.leakage(model, table)
        self._known.add((model, table))
        if known is None:
            self._warn(f"tables.{table}: a ready file, so whether prompts are in its corpus is not known")
        leaks = dict.fromkeys(cell.prompt for cell in cells if self._leak(cell))
        if leaks:
            self._warn(f"models.{model}: cells with tables.{table} are refused, a leak: {', '.join(leaks)}")

    def of(self, planned: PlannedCell) -> Leakage | None:
        """Return what of a cell's prompt is in its table's corpus; None without one. Raises `NgramError`."""
        table = self._table_of(planned)
        known = self._tables.leakage(planned.start.model, table) if table is not None else None
        return known[planned.prompt] if known is not None else None

    def table_record(self, planned: PlannedCell) -> record.Table | None:
        """Return what a cell's record says of its table. Raises `NgramError`."""
        table = self._table_of(planned)
        if table is None:
            return None
        loaded = self._tables.get(planned.start.model, table)
        return structs.replace(loaded.table, leakage=self.of(planned))

    def is_leak(self, planned: PlannedCell) -> bool:
        """Whether a cell is known to be a leak. Asks for no table that could not be had before."""
        known = (planned.start.model, self._table_of(planned)) in self._known
        return known and self._leak(planned) is not None

    def check(self, planned: PlannedCell) -> None:
        """Refuse a cell whose prompt is in the corpus of its table.

        Raises:
            EngineError: outcome `refused`.
        """
        leaked, table = self._leak(planned), self._table_of(planned)
        if leaked is not None and table is not None:
            why, found = leaked
            cause = f"prompt {planned.prompt!r} is in the corpus of table {table!r}: {_told(why, found)}"
            raise self._refusal(table, cause, _counts(found))

    def check_start(self, cells: Sequence[PlannedCell]) -> None:
        """Refuse a start of which every cell would be refused, so that no server is started for it.

        Raises:
            EngineError: outcome `refused`. It is that of each of these cells.
        """
        leaks = {cell.prompt: self._leak(cell) for cell in cells}
        table = self._table_of(cells[0]) if cells else None
        if table is None or None in leaks.values():
            return
        if len(leaks) == 1:
            self.check(cells[0])
        told = [f"{name}: {_told(*leaked)}" for name, leaked in leaks.items() if leaked is not None]
        raise self._refusal(table, f"all {len(leaks)} prompts are in the corpus of table {table!r}", told)

    def _refusal(self, table: str, cause: str, checked: Sequence[str]) -> EngineError:
        bounds = self._setup.table_spec(table).leakage
        said = f"runs of {bounds.max_run_tokens} tokens, {bounds.max_share:.0%} of the 8-grams"
        return EngineError(
            cause,
            outcome="refused",
            checked=[*checked, f"bounds of tables.{table}: {said}"],
            fix="take the message out of the corpus, or the prompt out of the set; "
            "`leakage` of the table sets other bounds",
        )

    def _leak(self, planned: PlannedCell) -> tuple[str, Leakage] | None:
        """What makes a cell a leak, and all that was found; None where it is none, or not known."""
        table, found = self._table_of(planned), self.of(planned)
        if table is None or found is None or planned.is_echo:
            return None
        bounds = self._setup.table_spec(table).leakage
        most_tokens, most_share = bounds.max_run_tokens, bounds.max_share
        why = leak(found.run, found.share, max_run_tokens=most_tokens, max_share=most_share)
        return (why, found) if why is not None else None

    def _table_of(self, planned: PlannedCell) -> str | None:
        return self._setup.matrix.configs[planned.start.config].table


def _told(why: str, found: Leakage) -> str:
    return why if found.at is None else f"{why}, {_said(found.at)}"


def _said(at: CorpusPlace) -> str:
    """Where a message is: never what it says."""
    line = f"line {at.line} of {at.corpus}"
    if at.session is None:
        return f"in {line}"
    which = "a message" if at.number is None else f"message {at.number}"
    return f"in {which} of session {at.session!r} ({line})"


def _counts(found: Leakage) -> list[str]:
    counts = [f"longest run: {found.run} tokens"]
    if found.share is not None:
        counts.append(f"8-grams: {found.share:.1%} in the corpus, {found.of_one_message:.1%} in one message")
    if found.exact or found.near:
        counts.append(f"duplicates: {found.exact} exact, {found.near} near")
    return counts
