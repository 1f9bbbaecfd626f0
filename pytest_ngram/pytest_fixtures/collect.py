"""Cells to tests: parametrisation, order, and what is said before the run begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.errors import NgramError, OptionError
from pytest_ngram.pytest_fixtures import note_user, session_of
from pytest_ngram.pytest_fixtures.comparing import prepare
from pytest_ngram.pytest_fixtures.saving import check_options, guard

if TYPE_CHECKING:
    from pytest_ngram.session import Session


# By these names a test reads the matrix; a project's own fixtures of these names are no business of ours.
_NAMES = ("ngram_planned", "llama_server", "ngram_table", "prompt_set", "ngram_session")
_HOME = "pytest_ngram.pytest_fixtures"


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Give a cell test all cells of the profile, and a test of `llama_server` all servers."""
    names = [name for name in _NAMES if _is_ours(metafunc._arg2fixturedefs, name)]
    marked = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark)}
    try:
        if names:
            note_user(metafunc.config, metafunc.definition.path, cells="ngram_planned" in names)
        if "ngram_planned" in names and "ngram_planned" not in marked:
            _refuse_xdist(metafunc.config)
            _require_benchmark(metafunc.config)
            check_options(metafunc.config)
            cells = session_of(metafunc.config).setup.cells
            prepare(metafunc.config)
            session_of(metafunc.config).take_gates()
            metafunc.parametrize(
                ("llama_server", "ngram_planned"),
                [(cell.start.id, cell.id) for cell in cells],
                ids=[cell.id for cell in cells],
                indirect=True,
                scope="session",
            )
        elif "llama_server" in names:
            # opened for a marked test too: what is wrong with the engine is told once, not by each test
            servers = session_of(metafunc.config).setup.servers()
            if "llama_server" not in marked:
                metafunc.parametrize("llama_server", servers, indirect=True, scope="session")
    except NgramError as error:
        # said without a traceback, and before anything is measured
        raise pytest.Collector.CollectError(f"{type(error).__name__}: {error}") from error


def order(items: list[pytest.Item]) -> None:
    """Put the cell tests into the order of the plan, in place; other tests stay where they are.

    To be called when collection has ended: pytest sorts by fixtures, and `--ff` and other plugins sort again.
    """
    places = [i for i, item in enumerate(items) if cell_id(item) is not None]
    if not places:
        return
    cells = session_of(items[places[0]].config).setup.cells
    rank = {cell.id: i for i, cell in enumerate(cells)}
    ordered = sorted((items[i] for i in places), key=lambda item: rank[str(cell_id(item))])
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def choose(session: pytest.Session) -> None:
    """Put the cells that are left after `-k` into order, tell our session, and guard their saving."""
    order(session.items)
    chosen = [name for item in session.items if (name := cell_id(item)) is not None]
    if chosen:
        ngram = session_of(session.config)
        ngram.choose(chosen)
        guard(session, ngram)


def keep_budget(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Probe where that is wanted, and deselect the cells that a budget has no time for.

    A budget that cannot be kept is an error of the collection: nothing is measured, and the exit code is 2.
    """
    names = [name for item in items if (name := cell_id(item)) is not None]
    if not names:
        return
    ngram = session_of(config)
    try:
        kept = ngram.within_budget(names, only_look=config.getoption("collectonly"))
    except NgramError as error:
        kept = set()
        said = f"{type(error).__name__}: {error}"
        report = pytest.CollectReport("--ngram-budget", "failed", said, [])
        config.hook.pytest_collectreport(report=report)
    dropped = [item for item in items if (name := cell_id(item)) is not None and name not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if (name := cell_id(item)) is None or name in kept]


def report_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Return what is printed after collection: the order of the configs in each block."""
    if not any(cell_id(item) for item in items):
        return []
    session = session_of(config)
    lines = [f"ngram: profile {session.setup.profile}, {session.ledger.planned_cells} cells, in this order"]
    lines += [f"  {line}" for line in session.ledger.order]
    lines += [f"  {line}" for line in _forecast(session)]
    chosen = [session.cell(name).cell for item in items if (name := cell_id(item)) is not None]
    lines += [f"  {line}" for line in (*session.setup.left_out_lines(), *session.setup.equal_lines(chosen))]
    if not config.getoption("collectonly"):
        lines.append(f"  every cell is kept in {session.ledger.path} as it ends")
    lines += [
        f"  warning: {problem}; cells that need it will be refused" for problem in session.missing_files()
    ]
    if session.ledger.restored:
        lines.append(f"  {len(session.ledger.restored)} cells are taken from {session.ledger.path}")
    return lines


def _forecast(session: Session) -> list[str]:
    from pytest_ngram.report.forecast import budget_lines, forecast_lines

    foresight = session.foresight
    chosen = budget_lines(foresight.cut, foresight.budget_s) if foresight.cut and foresight.budget_s else []
    return [*foresight.notes, *chosen, *forecast_lines(session.estimate, probe=foresight.probing)]


def cell_id(item: pytest.Item) -> str | None:
    """Return the id of the cell that a test measures, None for other tests."""
    callspec = getattr(item, "callspec", None)
    value = callspec.params.get("ngram_planned") if callspec is not None else None
    if not isinstance(value, str):
        return None
    defs = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public name for it
    return value if _is_ours(defs, "ngram_planned") else None


def _is_ours(fixturedefs: Mapping[str, Sequence[pytest.FixtureDef[Any]]], name: str) -> bool:
    """Whether a test that asks for this name gets our fixture, itself or through one that builds on it.

    The last definition is the one that is asked; an earlier one only if that asks for its own name.
    """
    for each in reversed(fixturedefs.get(name, ())):
        if getattr(each.func, "__module__", None) == _HOME:
            return True
        if name not in each.argnames:
            return False
    return False


def _names(mark: pytest.Mark) -> Sequence[str]:
    names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _require_benchmark(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin("benchmark"):
        raise OptionError(
            "cells are recorded by pytest-benchmark, which is switched off",
            checked=["plugin: benchmark"],
            fix="leave out -p no:benchmark",
        )


def _refuse_xdist(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and hasattr(config, "workerinput"):
        raise OptionError(
            "timing cells cannot run in parallel on one host",
            checked=[f"this is the xdist worker {worker}"],
            fix="leave out -n (or give -n 0): servers that run side by side slow each other down",
        )
