"""The price before the purchase: a table that would not fit beside its model starts no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_ngram.record import run_from_builtins
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import encode

if TYPE_CHECKING:
    from conftest import Project

SLOTS = 2000
WITH_TABLE = """
  tabled: {types: [ngram-cache], table: chats, flags: -np SLOTS}
tables:
  chats: {file: {path: chats.lcs}}
"""


def give_table(project: Project, data: bytes, slots: int) -> None:
    """Put a ready table beside the matrix, and a config that loads it on a server of so many slots."""
    (project.bench / "chats.lcs").write_bytes(data)
    config = "  ngram-cache: {types: [ngram-cache]}\n"
    project.edit(config, config.rstrip("\n") + WITH_TABLE.replace("SLOTS", str(slots)))


@pytest.fixture(scope="module")
def large() -> bytes:
    """A table of some 95 000 keys and 50 MB a slot: two thousand slots need more than a host of tests has."""
    ids = np.random.default_rng(1).integers(0, 1200, 100_000).tolist()
    return encode(count_bigrams([ids, ids]))


def test_a_table_beyond_the_memory_is_refused(project: Project, large: bytes) -> None:
    """No server is started for it, its cells are refused with the reason, and the others are measured."""
    give_table(project, large, SLOTS)
    data = project.measure("-k", "none/ or tabled", exit_code=1)
    failed = run_from_builtins(data["ngram"]).failed_cells
    assert {(record.cell.config, record.outcome.status) for record in failed} == {("tabled", "refused")}
    reason = failed[0].outcome.reason or ""
    assert "the table chats.lcs needs" in reason
    assert len(data["benchmarks"]) == 4
    assert not list((project.path / ".ngram").rglob("*tabled*.log"))


def test_the_refusal_tells_what_to_do(project: Project, large: bytes) -> None:
    """The numbers of table, model and host; the pruning that would fit; fewer slots; the option to go on."""
    give_table(project, large, SLOTS)
    result = project.run("-k", "tabled")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*the table chats.lcs needs * GiB, with model and caches * GiB; * GiB are available*",
            f"*checked: * keys, * pairs, -np {SLOTS}: predicted; *",
            "*checked: model file * GiB; KV cache and recurrent state at least * GiB*",
            f"*to do: *; or take fewer slots than -np {SLOTS}: *; or give --ngram-force*",
        ]
    )


def test_a_refused_table_can_be_forced(project: Project) -> None:
    """With --ngram-force the start goes on, and the numbers are a warning."""
    data = encode(count_bigrams([[1, 2, 3], [1, 2, 3]]))
    give_table(project, data, 1)
    (project.path / "conftest.py").write_text(
        "from pytest_ngram.measure import host\nhost.available_bytes = lambda: 2**20\n", encoding="utf-8"
    )
    assert project.run("-k", "tabled").ret == 1
    result = project.run("-k", "tabled", "--ngram-force", "--benchmark-quiet")
    result.stdout.fnmatch_lines(["*the server needs * GiB of its own, 0.00 GiB are available*"])
    assert list((project.path / ".ngram").rglob("*tabled*.log"))


def test_a_table_that_fits_is_loaded(project: Project, large: bytes) -> None:
    """The same table at one slot is no trouble, and nothing is said of memory."""
    give_table(project, large, 1)
    result = project.run("-k", "tabled", "--benchmark-quiet")
    result.stdout.no_fnmatch_line("*are available*")
    logs = list((project.path / ".ngram").rglob("*tabled*.log"))
    assert logs
    assert "failed to open static lookup cache" not in Path(logs[0]).read_text(errors="replace")
