"""What becomes of cells that ended: record, journal, saved JSON, terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.engine.api_key import without_secrets
from pytest_ngram.errors import NgramError, RecordError
from pytest_ngram.pytest_fixtures import CELL, SESSION, session_of
from pytest_ngram.pytest_fixtures.collect import cell_id
from pytest_ngram.pytest_fixtures.saving import SAVED, Saved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_ngram.judge.inert import Finding
    from pytest_ngram.record import Cell, Record
    from pytest_ngram.session import Session


TOLD = pytest.StashKey[set[str]]()
BENCHMARKS = pytest.StashKey[dict["Cell", Any]]()
WARNINGS = pytest.StashKey[list[str]]()
_JOURNAL_OPTIONS = ("--ngram-resume", "--ngram-journal")


def finish(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Keep the record of a cell whose test ended in this phase; say errors of ours without a traceback."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, NgramError):
        report.longrepr = told(item.config, error)
    name = cell_id(item)
    ended = call.when == "call" or (call.when == "setup" and error is not None)
    if name is None or not ended or isinstance(error, (KeyboardInterrupt, pytest.exit.Exception)):
        return
    benchmark = getattr(item, "funcargs", {}).get("benchmark")
    session = session_of(item.config)
    planned = session.cell(name)
    if isinstance(error, pytest.skip.Exception):
        _leave_out(benchmark)
        _conclude(item.config, report, *session.left_out(planned))
        return
    try:
        session.finish(planned, item.stash.get(CELL, None), error)
    except RecordError as failure:
        item.session.shouldfail = str(failure)
        _fail(report, failure)
    record = session.ledger.records[-1]
    if record.outcome.status != "ok":
        _leave_out(benchmark)
        if error is None:
            _fail(report, record.outcome.reason or "")
    elif benchmark is not None:
        item.config.stash.setdefault(BENCHMARKS, {})[record.cell] = benchmark
        _attach(benchmark, record)
    _conclude(item.config, report, *session.judge(planned))


def _attach(benchmark: Any, record: Record) -> None:
    from pytest_ngram.record import to_builtins

    benchmark.extra_info["ngram"] = to_builtins(record)


def _conclude(
    config: pytest.Config, report: pytest.TestReport, finding: Finding, records: Sequence[Record]
) -> None:
    """Take the benchmarks of an inert config out of the results, and fail the last of its tests for it."""
    if finding.warning is not None:
        config.stash.setdefault(WARNINGS, []).append(finding.warning)
    benchmarks = config.stash.get(BENCHMARKS, {})
    for record in records:
        benchmark = benchmarks.get(record.cell)
        if benchmark is not None and record.outcome.status == "ok":
            _attach(benchmark, record)
        elif benchmark is not None:
            _leave_out(benchmark)
    judged = finding.outcome is not None and finding.outcome.status != "ok" and finding.fails
    if finding.outcome is not None and judged and not report.failed:
        cell = records[0].cell
        which = f"all of {cell.model}/{cell.config} at temperature {cell.temperature:g}"
        _fail(report, f"{finding.outcome.status}, {which}: {finding.outcome.reason}")


def _leave_out(benchmark: Any) -> None:
    """Mark a benchmark as failed, so that a time that it took before it failed is ranked nowhere."""
    if benchmark is not None:
        benchmark.has_error = True


def _fail(report: pytest.TestReport, why: object) -> None:
    report.outcome = "failed"
    report.longrepr = str(why)


def told(config: pytest.Config, error: NgramError) -> str:
    """Return an error without a traceback; one told before, as of a server for its next cell, in a line."""
    before = config.stash.setdefault(TOLD, set())
    text = f"{type(error).__name__}: {error}"
    if text in before:
        return f"{type(error).__name__}: {error.cause} (as above)"
    before.add(text)
    return text


def update_json(config: pytest.Config, output: dict[str, Any]) -> None:
    """Add the top-level `ngram` object to a saved JSON, if cells were run."""
    session = measured(config)
    if session is not None:
        from pytest_ngram.record import to_builtins

        output["ngram"] = to_builtins(session.run_file())


def measured(config: pytest.Config) -> Session | None:
    """Return the session if any cell of it has ended."""
    session = config.stash.get(SESSION, None)
    return session if session is not None and session.ledger.records else None


def summary(config: pytest.Config) -> list[str]:
    """Return the lines that end a run: a table per model, what failed, where it is saved, how to go on."""
    session = measured(config)
    if session is None:
        return []
    from pytest_ngram.report.echo import echo_lines
    from pytest_ngram.report.leakage import leakage_lines
    from pytest_ngram.report.terminal import all_lines, failure_lines
    from pytest_ngram.verdict.summary import summarise

    ledger = session.ledger
    lines = all_lines(summarise(ledger.records, tuple(session.setup.matrix.configs)), _columns(config))
    lines += [f"  {line}" for line in session.setup.equal_lines(record.cell for record in ledger.records)]
    lines += [f"  {line}" for line in leakage_lines(ledger.records, session.setup.matrix.leakage_bounds)]
    lines += echo_lines(ledger.records, tuple(session.setup.matrix.configs))
    lines += [f"  warning: {warning}" for warning in config.stash.get(WARNINGS, [])]
    failures = failure_lines(ledger.failed())
    if failures:
        lines += ["", "failed:", *(f"  {line}" for line in failures)]
    return [*lines, "", *session.pace.lines(), *_where(config, session)]


def _columns(config: pytest.Config) -> int | None:
    """The width of the terminal; None where the output is none, as in a pipe or CI."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return config.get_terminal_writer().fullwidth if reporter is not None and reporter.isatty else None


def _where(config: pytest.Config, session: Session) -> list[str]:
    saved = config.stash.get(SAVED, Saved())
    lines = [f"saved: {path}" for path in saved.paths]
    if saved.error is not None:
        lines += ["NOT SAVED", *saved.error.splitlines()]
    elif not saved.paths and config.getoption("benchmark_disable"):
        lines.append("not saved as JSON: benchmarks are disabled")
    elif not saved.paths:
        lines.append(
            "not saved as JSON: give --benchmark-autosave, --benchmark-save=NAME or --benchmark-json=FILE"
        )
    ledger = session.ledger
    if ledger.begun:
        lines.append(f"journal: {ledger.path}")
    if not ledger.begun and ledger.resumed_from is None:
        return lines
    missing = ledger.planned_cells - len(ledger.records)
    ended_badly = list(ledger.failed())
    failed = [record for record in ended_badly if record.outcome.status != "inert"]
    in_part = sum(r.outcome.status == "inert" and session.ran_in_part(r.cell) for r in ended_badly)
    inert = len(ended_badly) - len(failed) - in_part
    if missing or failed:
        stays = _stays(failed)
        how = "mend the reason first, then" if stays else "to measure them now"
        lines += [
            f"{missing} not measured, {len(failed)} failed; {how}:",
            f"  {_again(config, session)}",
        ]
        if stays:
            lines.append("  (without --ngram-resume if the matrix changes in more than paths of models)")
    if in_part:
        lines.append(f"{in_part} inert on a part of the profile's prompts: run more of them first")
    if inert:
        lines += [
            f"{inert} inert, which measuring again will not change: give the type other flags or prompts;",
            "or, if no draft is expected, say so in the matrix (`abstains` of the model), and then:",
            f"  {_again(config, session)}",
        ]
    return lines


def _stays(failed: Sequence[Record]) -> bool:
    """Whether all that failed was refused before a request was sent: it would be refused again."""
    return bool(failed) and all(record.outcome.status == "refused" and not record.rounds for record in failed)


def _again(config: pytest.Config, session: Session) -> str:
    """The command of this run, with the journal that it is to go on with, to be pasted into a shell."""
    given = [str(argument) for argument in config.invocation_params.args]
    kept = [
        argument
        for i, argument in enumerate(given)
        if not argument.startswith(_JOURNAL_OPTIONS) and (i == 0 or given[i - 1] not in _JOURNAL_OPTIONS)
    ]
    # what was refused for holding a key, or a user of an address, is not shown for that
    shown = [without_secrets(argument) for argument in kept]
    return shlex.join(["pytest", *shown, f"--ngram-resume={session.ledger.path}"])
