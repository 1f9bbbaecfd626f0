"""The verdict of a run, and the reports that are written when it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.pytest_fixtures import SESSION, comparing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_ngram.report.page import Shown
    from pytest_ngram.session import Session
    from pytest_ngram.verdict.types import GateResults, Verdict

VERDICT = pytest.StashKey["Verdict"]()
REPORTED = pytest.StashKey[list[str]]()


def verdict_of(config: pytest.Config, session: Session) -> Verdict:
    """Return the verdict over all cells that ended; made once, when the run is over."""
    from pytest_ngram.verdict.judge import judge
    from pytest_ngram.verdict.samples import from_records

    if VERDICT not in config.stash:
        samples = from_records(session.ledger.records, session.run_file().prompts)
        order = tuple(session.setup.matrix.configs)
        gates = _gates(config, session)
        config.stash[VERDICT] = judge(samples, session.settings.adopt, gates, config_order=order)
    return config.stash[VERDICT]


def _gates(config: pytest.Config, session: Session) -> GateResults | None:
    """What the gates found; what speaks against it now is told, and the verdict goes without."""
    from pytest_ngram.errors import NgramError

    try:
        return session.gate_results()
    except NgramError as error:
        config.stash.setdefault(REPORTED, []).append(f"NO GATES: {error}")
        return None


def write(session: pytest.Session) -> None:
    """Write the reports of a run that measured anything. Whatever goes wrong here, the run is not lost.

    It comes after saving, and ahead of the summary, which has the lines (`reported`). A report that was asked
    for and cannot be written fails the run; one that is written anyway is only told.
    """
    config = session.config
    ngram = config.stash.get(SESSION, None)
    if ngram is None or not ngram.ledger.records:
        return
    lines = config.stash[REPORTED] = []
    for path in _paths(ngram):
        try:
            _write(path, config, ngram)
            lines.append(f"report: {path}")
        except Exception as error:  # hours were measured, and their summary is to come
            lines += _explained(path, error)
            if ngram.settings.reports is not None or not isinstance(error, OSError):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED


def reported(config: pytest.Config) -> list[str]:
    """Return the lines that tell what became of the reports."""
    return config.stash.get(REPORTED, [])


def _paths(ngram: Session) -> tuple[Path, ...]:
    """Those that were asked for; else one beside the journal, under its name."""
    asked = ngram.settings.reports
    return asked if asked is not None else (ngram.ledger.path.with_suffix(".html"),)


def _write(path: Path, config: pytest.Config, ngram: Session) -> None:
    from pytest_ngram.report.written import write_report

    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(path, _shown(config, ngram))


def _shown(config: pytest.Config, ngram: Session) -> Shown:
    from pytest_ngram.report.page import Shown

    return Shown(
        records=ngram.ledger.records,
        verdict=verdict_of(config, ngram),
        run=ngram.run_file().run,
        config_order=tuple(ngram.setup.matrix.configs),
        when=f"{datetime.now(UTC):%Y-%m-%d %H:%M %Z}",
        sections=comparing.sections(config),
    )


def _explained(path: Path, error: Exception) -> list[str]:
    if isinstance(error, OSError):
        return [
            f"NO REPORT: {path} cannot be written: {error.strerror or error}",
            "  to do: make room, or name another file: pytest-ngram report RUN.json --html FILE",
        ]
    return [
        f"NO REPORT: {path}: {type(error).__name__}: {error}",
        "  to do: this is a fault of the program; what was saved is whole, and so is the journal",
    ]
