"""`--ngram-baseline`: the run is compared with a saved one when it ends, and fails by `--ngram-fail-on`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ngram.pytest_fixtures import SESSION, session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_ngram.record import RunData
    from pytest_ngram.report.page import Section
    from pytest_ngram.session import Session
    from pytest_ngram.verdict.bounds import Bound

BASELINE = pytest.StashKey["RunData"]()
COMPARED = pytest.StashKey[list[str]]()
SECTIONS = pytest.StashKey["Sequence[Section]"]()
_THIS = "this run"


def prepare(config: pytest.Config) -> None:
    """Read the baseline before hours are spent. Raises `NgramError`."""
    path = session_of(config).settings.baseline
    if path is None or BASELINE in config.stash:
        return
    from pytest_ngram.reports import cells_of

    config.stash[BASELINE] = cells_of(path)


def end(session: pytest.Session) -> None:
    """Compare, keep the lines for the summary, and fail the run where a bound is not kept or not told.

    A bound that cannot be told fails too: a check that nobody can make is none.
    """
    config = session.config
    if config.getoption("ngram_baseline") is None or config.getoption("collectonly"):
        return
    if hasattr(config, "workerinput"):
        return
    ngram = config.stash.get(SESSION, None)
    if ngram is None or BASELINE not in config.stash or not ngram.ledger.records:
        config.stash[COMPARED] = ["NOT COMPARED: no cell was measured, and --ngram-baseline is given"]
        _fail(session)
        return
    _compare(session, ngram, config.stash[BASELINE], ngram.settings.bounds)


def _compare(session: pytest.Session, ngram: Session, baseline: RunData, bounds: tuple[Bound, ...]) -> None:
    from pytest_ngram.record import RunData
    from pytest_ngram.report.catalogue import catalogue
    from pytest_ngram.report.compare import compare_lines
    from pytest_ngram.report.page.compared import compared_sections
    from pytest_ngram.reports import compared
    from pytest_ngram.verdict.bounds import check

    own = RunData.of(_THIS, ngram.run_file(), ngram.ledger.records)
    found = compared(baseline, own, tuple(ngram.setup.matrix.configs))
    checked = check(found, bounds) if bounds else None
    session.config.stash[COMPARED] = compare_lines(found, checked)
    session.config.stash[SECTIONS] = compared_sections(found, catalogue(), checked)
    if checked is not None and checked.outcome != "pass":
        session.config.stash[COMPARED].append(f"the run fails: {checked.outcome} (--ngram-fail-on)")
        _fail(session)


def _fail(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def lines(config: pytest.Config) -> list[str]:
    """Return the comparison; nothing where none was asked for."""
    return config.stash.get(COMPARED, [])


def sections(config: pytest.Config) -> Sequence[Section]:
    """Return the comparison as a report shows it; nothing where none was asked for."""
    return config.stash.get(SECTIONS, ())
