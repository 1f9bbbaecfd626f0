"""What the user asked for, as one frozen object."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.duration import parse as parse_duration
from pytest_ngram.options.declared import CACHE_VARIABLE, SERVER_VARIABLE
from pytest_ngram.options.quiet import QuietOptions, quiet_options
from pytest_ngram.options.which_matrix import User, base, matrix_of

if TYPE_CHECKING:
    import pytest

    from pytest_ngram.verdict.bounds import Bound
    from pytest_ngram.verdict.types import Settings as Adopt

NO_REPORT = "none"


@dataclass(frozen=True)
class GateOptions:
    """What the user wants of the gates.

    Args:
        update: store goldens instead of comparing with them.
        strict_seam: what cannot be looked at in the seam is a failure.
        strict_golden: a model without a golden of this engine's family is a failure.
        golden: folder of goldens; None means `golden/` beside the gate tests.
        report: a file for the verdicts and the build's capabilities, or None.
    """

    update: bool
    strict_seam: bool
    strict_golden: bool
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
        baseline: a saved run to compare with when the run ends, or None.
        bounds: what may have changed since the baseline.
        reports: files to write when the run ends; None means one beside the journal.
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
        quiet: what the user wants of a quiet and cool machine.
        adopt: what a config has to gain, and what it may cost.
        gates_of: a report of the gates on this build, for the verdict, or None.
    """

    matrix: Path
    profile: str
    models: tuple[str, ...]
    journal: Path | None
    resume: Path | None
    baseline: Path | None
    bounds: tuple[Bound, ...]
    reports: tuple[Path, ...] | None
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
    quiet: QuietOptions
    adopt: Adopt
    gates_of: Path | None


def read(config: pytest.Config, users: Collection[User] = ()) -> Settings:
    """Return the settings of a session.

    Args:
        config: pytest's.
        users: the test files that need the matrix, as far as they are collected.

    Raises:
        OptionError: a value that cannot be followed, such as a journal to resume that does not exist.
    """
    from pytest_ngram.options import adopt  # not while pytest loads its plugins: msgspec is heavy

    root = base(config)[0]
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
        baseline=_named(config, "--ngram-baseline"),
        bounds=_bounds(config),
        reports=_reports(config),
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
        quiet=quiet_options(config),
        adopt=adopt.parse(config.getoption("ngram_adopt") or config.getini("ngram_adopt")),
        gates_of=_named(config, "--ngram-gates") or _gates_of_ini(config),
    )


def _bounds(config: pytest.Config) -> tuple[Bound, ...]:
    """Return what `--ngram-fail-on` says. Raises `OptionError`."""
    from pytest_ngram.verdict.bounds import parse

    given = config.getoption("ngram_fail_on")
    if given is None:
        return ()
    if config.getoption("ngram_baseline") is None:
        raise OptionError(
            "--ngram-fail-on has nothing to compare with",
            checked=["--ngram-baseline is not given"],
            fix="give --ngram-baseline OLD.json, a run that was saved before",
        )
    return parse(given, "--ngram-fail-on")


def _reports(config: pytest.Config) -> tuple[Path, ...] | None:
    """Return the reports that were asked for. Raises `OptionError` for one that could not be written."""
    from pytest_ngram.report.written import check_name

    named: list[str] | None = config.getoption("ngram_report")
    if named is None:
        return None
    paths = tuple(config.invocation_params.dir / name for name in named if name != NO_REPORT)
    for path in paths:
        check_name(path, "--ngram-report")
    return paths


def _gate_options(config: pytest.Config) -> GateOptions:
    golden, report = _named(config, "--gates-golden"), _named(config, "--gates-report")
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        # told now, not after minutes of gates
        what = "a folder" if report.is_dir() else "in no folder"
        raise OptionError(
            f"--gates-report cannot be written: {report} is {what}",
            checked=[str(report.parent)],
            fix="name a file in a folder that is there",
        )
    return GateOptions(
        update=config.getoption("gates_update"),
        strict_seam=config.getoption("strict_seam"),
        strict_golden=config.getoption("strict_golden"),
        golden=golden,
        report=report,
    )


def _named(config: pytest.Config, option: str) -> Path | None:
    """Return the path that an option names; an empty one is a variable that was not set, not a default."""
    named = config.getoption(option)
    if named == "":
        raise OptionError(f"{option} names nothing", fix="name a path, or leave the option out")
    return config.invocation_params.dir / named if named is not None else None


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


def _gates_of_ini(config: pytest.Config) -> Path | None:
    named: str = config.getini("ngram_gates")
    return config.rootpath / Path(named).expanduser() if named else None


def cache_folder(given: str | None = None) -> Path:
    """Return the cache folder: the one given, `PYTEST_NGRAM_CACHE`, or the user's own cache folder."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pytest-ngram"
