"""The hooks. Each delegates; none holds policy. Nothing heavy is imported before a test asks for it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_ngram import options
from pytest_ngram.pytest_fixtures import (
    collect,
    comparing,
    gates,
    llama_server,
    ngram_cell,
    ngram_planned,
    ngram_session,
    ngram_table,
    prompt_set,
    reporting,
    results,
)
from pytest_ngram.pytest_fixtures.gates import ngram_gate

__all__ = [
    "llama_server",
    "ngram_cell",
    "ngram_gate",
    "ngram_planned",
    "ngram_session",
    "ngram_table",
    "prompt_set",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of gate tests."""
    gates.declare(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give cell tests their cells, and gate tests their cases."""
    collect.parametrise(metafunc)
    gates.parametrise(metafunc)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Deselect what the budget has no time for, of what `-k` left."""
    collect.keep_budget(session, config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Restore the planned order, note which cells were chosen, and guard their saving."""
    collect.choose(session)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Print the order of the run."""
    return collect.report_lines(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the record of a cell that ended."""
    report = yield
    results.finish(item, call, report)
    gates.finish(item, call, report)
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show what is neither a pass nor a failure under its own name."""
    return gates.teststatus(report)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Settle a gate test that has no case."""
    return gates.settle_none(pyfuncitem)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of gates that judged nothing, and write the reports of a bench."""
    gates.end(session)
    comparing.end(session)
    reporting.write(session)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add what all cells share to the saved JSON."""
    results.update_json(config, output_json)


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the tables, ahead of a compare-fail that would end the summary."""
    for title, lines in (
        ("pytest-ngram", results.summary(config)),
        ("against the baseline", comparing.lines(config)),
        ("gates", gates.summary(config, terminalreporter)),
    ):
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
