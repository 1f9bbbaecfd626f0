"""The fixtures: a running server, a built table, prompt sets, and the cell that is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.shipped import shipped

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_ngram.matrix.plan import PlannedCell
    from pytest_ngram.matrix.prompts import PromptSet
    from pytest_ngram.measure.cell import CellRun, RestoredCell
    from pytest_ngram.measure.server import Server
    from pytest_ngram.options import User
    from pytest_ngram.session import Session
    from pytest_ngram.table.build import LoadedTable

SESSION = pytest.StashKey["Session"]()
USERS = pytest.StashKey[dict["Path", "User"]]()
CELL = pytest.StashKey["CellRun | RestoredCell"]()


@pytest.fixture(scope="session")
def ngram_session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The matrix and what was measured so far: what the other fixtures of this plugin share."""
    session = session_of(request.config)
    yield session
    session.close()


@pytest.fixture(scope="session")
def ngram_table(ngram_session: Session) -> Callable[[str, str], LoadedTable]:
    """Static n-gram tables for llama.cpp, built from chats: `ngram_table(model_id, table_id).path`.

    The ids are those of the matrix. The table is built from its corpus through the model's own `/tokenize`,
    once, and kept in the cache; the result's `manifest` has vocabulary, corpus, parameters and counts.
    """
    return ngram_session.table


@pytest.fixture(scope="session")
def prompt_set(ngram_session: Session) -> Callable[[str], PromptSet]:
    """Prompt sets of the matrix: `prompt_set(set_id).prompts`, and `.chat(prompt)` for its messages."""
    return ngram_session.prompt_set


@pytest.fixture(scope="session")
def llama_server(request: pytest.FixtureRequest, ngram_session: Session) -> Iterator[Server | None]:
    """A running llama.cpp server, `url` and `client`; the test runs once per model and config of the matrix.

    It is warmed up, and ends with the run. Without a choice all models and configs are taken; choose
    with `@pytest.mark.parametrize("llama_server", ["model/config"], indirect=True)`. Equal neighbours share
    one server. It is None where a resumed journal already holds every cell of the server.
    """
    start = ngram_session.setup.start_of(request.param)
    if ngram_session.is_restored(start):
        yield None
        return
    server = ngram_session.serve(start)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def ngram_planned(request: pytest.FixtureRequest, ngram_session: Session) -> PlannedCell:
    """Which cell of the matrix a test measures: ask for `ngram_cell` instead.

    It is apart from `ngram_cell` because pytest gives all names of one parametrisation one scope: with a
    narrower one than the server's, every cell would start a server of its own.
    """
    return ngram_session.cell(request.param)


@pytest.fixture
def ngram_cell(
    request: pytest.FixtureRequest,
    ngram_session: Session,
    ngram_planned: PlannedCell,
    llama_server: Server | None,
    benchmark: BenchmarkFixture,
) -> CellRun | RestoredCell:
    """One cell of the matrix to measure: `request()` sends a request, `rounds` says how many.

    Use it with `@pytest.mark.benchmark(timer=pytest_ngram.measure.clock.CLOCK)` and
    `benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds)`, as `bench/test_cells.py` does.
    """
    from pytest_ngram.errors import OptionError
    from pytest_ngram.measure.clock import CLOCK

    marker = request.node.get_closest_marker("benchmark")
    if marker is None or marker.kwargs.get("timer") is not CLOCK:
        raise OptionError(
            "the test of a cell is timed by another clock",
            checked=["@pytest.mark.benchmark(timer=…)"],
            fix="mark it with @pytest.mark.benchmark(timer=pytest_ngram.measure.clock.CLOCK)",
        )
    benchmark.group = ngram_planned.start.model
    benchmark.param, benchmark.params = ngram_planned.id, ngram_planned.params
    benchmark.skipped = (
        True  # until it is clear that it can be used, so that nobody is warned of a failed cell
    )
    run = ngram_session.run(ngram_planned, llama_server)
    benchmark.skipped = False
    request.node.stash[CELL] = run
    return run


def session_of(config: pytest.Config) -> Session:
    """Return the session's state, made at the first call. Raises `NgramError`."""
    if SESSION not in config.stash:
        from pytest_ngram import options
        from pytest_ngram.pytest_fixtures.live import listener_of
        from pytest_ngram.session import Session

        settings = options.read(config, config.stash.get(USERS, {}).values())
        session = Session.open(settings, warn=_warner(config), listener=listener_of(config))
        config.stash[SESSION] = session
        config.add_cleanup(session.close)
        if settings.matrix == shipped("matrix.yaml"):
            _warner(config)(
                "there is no bench/matrix.yaml, so the plugin's own is used: hand-built models. To have one: "
                "pytest-ngram init, or --ngram-matrix"
            )
    return config.stash[SESSION]


def note_user(config: pytest.Config, path: Path, *, cells: bool) -> None:
    """Note a test file that needs the matrix, before the session is opened or later. Raises `OptionError`.

    A file that has another matrix than the session would be measured by the wrong one.
    """
    from pytest_ngram import options

    users = config.stash.setdefault(USERS, {})
    known = users.get(path)
    if known is not None and known.cells >= cells:
        return
    users[path] = options.User(path, cells)
    if SESSION in config.stash:
        options.matrix_of(config, users.values())


def _warner(config: pytest.Config) -> Callable[[str], None]:
    """Say a warning at once and on the terminal: at the end of a run of hours it would come too late."""

    def warn(text: str) -> None:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if terminal is None:
            return
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            terminal.ensure_newline()
            terminal.write_line(f"warning: {text}", yellow=True)

    return warn
