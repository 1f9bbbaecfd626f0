"""What a server remembers, and what happens to it when the server is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_ngram.measure.journal import read
from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from conftest import Project

# Strikes the server before a cell, after it has answered another one.
STRIKE = """
import os, signal, time
import pytest

@pytest.fixture(autouse=True)
def strike(request, ngram_cell, llama_server):
    if os.environ.get("STRIKE") and os.environ["STRIKE"] in request.node.name:
        os.kill(llama_server.engine.pid, signal.{signal})
        while "{signal}" == "SIGKILL" and llama_server.engine.alive():
            time.sleep(0.01)
"""


def statuses(data: dict[str, Any]) -> dict[str, str]:
    ok = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    records = (*ok, *run_from_builtins(data["ngram"]).failed_cells)
    return {f"{record.cell.config}/{record.cell.prompt}": record.outcome.status for record in records}


def test_a_stateless_config_goes_on_with_a_new_server(project: Project, monkeypatch: Any) -> None:
    """A server that died between two cells is replaced, and the record tells which server answered."""
    (project.bench / "conftest.py").write_text(STRIKE.format(signal="SIGKILL"))
    monkeypatch.setenv("STRIKE", "mtp1/word-ru")
    data = project.measure("-k", "mtp1")
    told = project.run("-k", "mtp1", "--benchmark-quiet").stdout
    told.fnmatch_lines(["warning: between two cells the server ended *", "*signal SIGKILL (9)*"])
    servers = [from_builtins(bench["extra_info"]["ngram"]).server for bench in data["benchmarks"]]
    assert [(server.serial, server.answered) for server in servers if server] == [(1, 0), (2, 0)]


def test_a_stateful_config_does_not(project: Project, monkeypatch: Any) -> None:
    """What ngram-cache learned died with its server: the cell is refused, resume repeats the start."""
    (project.bench / "conftest.py").write_text(STRIKE.format(signal="SIGKILL"))
    monkeypatch.setenv("STRIKE", "cache/word-ru")
    data = project.measure("-k", "cache", exit_code=1)
    assert statuses(data) == {"ngram-cache/word-en": "ok", "ngram-cache/word-ru": "refused"}
    monkeypatch.delenv("STRIKE")
    again = project.measure("-k", "cache", f"--ngram-resume={project.journal}")
    assert again["ngram"]["run"]["resumed_cells"] == 0
    servers = [from_builtins(bench["extra_info"]["ngram"]).server for bench in again["benchmarks"]]
    assert [(server.serial, server.answered) for server in servers if server] == [(2, 0), (2, 1)]
    assert len(read(project.journal).starts) == 2


def test_a_server_that_hangs_between_cells_costs_one_cell(project: Project, monkeypatch: Any) -> None:
    """Not only a completion can hang: whatever call finds the server frozen, the next cell gets a new one."""
    project.edit("blocks: 1", "blocks: 2")
    (project.bench / "conftest.py").write_text(STRIKE.format(signal="SIGSTOP"))
    monkeypatch.setenv("STRIKE", "mtp1/word-en/t0/b1")
    data = project.measure("-k", "mtp1", exit_code=1)
    assert len(data["benchmarks"]) == 3
    (failed,) = run_from_builtins(data["ngram"]).failed_cells
    assert failed.outcome.status == "hang"


def test_each_temperature_has_servers_of_its_own(project: Project) -> None:
    """No server is sent the same prompt twice, so no answer is drafted from the echo of another."""
    project.edit("n_predict: 48", "n_predict: 48, temperatures: [0, 0.7]")
    data = project.measure("-k", "cache or mtp1")
    asked = [
        (record.server.serial, record.cell.prompt)
        for bench in data["benchmarks"]
        if (record := from_builtins(bench["extra_info"]["ngram"])).server is not None
    ]
    assert len(asked) == len(set(asked)) == 8
    assert len({serial for serial, _prompt in asked}) == 4


def test_failed_first_does_not_undo_the_order(project: Project, monkeypatch: Any) -> None:
    """`--ff` sorts failed tests to the front; the plan's order is what runs all the same."""
    (project.bench / "conftest.py").write_text(STRIKE.format(signal="SIGKILL"))
    monkeypatch.setenv("STRIKE", "cache/word-ru")
    project.pytester.runpytest_subprocess("bench").assert_outcomes(passed=7, failed=1)
    monkeypatch.delenv("STRIKE")
    result = project.pytester.runpytest_subprocess("bench", "-v", "--ff")
    ran = [
        line.split("[")[1].split("]")[0]
        for line in result.outlines
        if "::test_cell[" in line and "PASSED" in line
    ]
    assert [name.split("/")[1] for name in ran[:2]] == ["none", "none"]
    assert ran[0].endswith("/first")
    assert ran[-1].endswith("/last")


def test_without_pytest_benchmark_cells_are_refused(project: Project) -> None:
    """There is nothing to record cells with: said as an error, not as a fault of pytest."""
    result = project.run("-p", "no:benchmark")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*OptionError: cells are recorded by pytest-benchmark*"])
    assert "INTERNALERROR" not in result.stdout.str()
