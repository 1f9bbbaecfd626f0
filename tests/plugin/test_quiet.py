"""A quiet and cool machine: options, marks, repeats and the entry state, through whole runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from conftest import Project

SPIN = "print('spins', flush=True)\nwhile True: pass"


@pytest.fixture
def busy() -> Iterator[None]:
    """A loop on each core as long as the test runs."""
    loops = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE)
        for _ in range(psutil.cpu_count() or 1)
    ]
    try:
        for loop in loops:
            assert loop.stdout is not None
            loop.stdout.readline()
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


@pytest.mark.usefixtures("busy")
def test_beside_a_second_load_cells_are_contended_and_none_fails(project: Project) -> None:
    """All are marked and counted, those without state are measured again, and the run stays green."""
    project.edit("n_predict: 48", "n_predict: 1500")
    saved = project.path / "run.json"
    chosen = ("-k", "none/ or ngram-cache", "--ngram-repeats=1")
    result = project.run(*chosen, "--benchmark-quiet", f"--benchmark-json={saved}")
    assert result.ret == 0, result.stdout.str()
    found = [
        from_builtins(each["extra_info"]["ngram"]) for each in json.loads(saved.read_text())["benchmarks"]
    ]
    assert len(found) == 6
    for record in found:
        disturbance, stateful = record.disturbance, record.cell.config == "ngram-cache"
        assert disturbance is not None
        assert disturbance.contended, record.host
        assert disturbance.repeats == (0 if stateful else 1)
        assert (disturbance.repeat_s > 0) is not stateful
        assert disturbance.not_repeated == (
            "its config keeps state between requests" if stateful else "1 repeats are allowed in a cell"
        )
        assert len(record.rounds) == 1
    result.stdout.fnmatch_lines(
        [
            "*6 cells contended: others took cores, or tasks waited*",
            "*4 requests measured again since they were disturbed*",
            "*2 cells disturbed and not measured again: their configs keep state*",
        ]
    )


def test_each_server_meets_a_machine_that_was_looked_at(project: Project) -> None:
    """With --ngram-settle it rests before each server, and each start has the state in which it met it."""
    data = project.measure("-k", "mtp1", "--ngram-settle=0.5")
    (start,) = run_from_builtins(data["ngram"]).run.starts
    assert start.entry is not None
    assert start.entry.waited_s >= 0.5
    assert start.entry.busy is not None
    assert start.entry.free_mb is not None
    assert start.load_s > 0
    assert (start.entry.temp_c is None) == ("temp_c" in start.entry.absent)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--ngram-contended=0", "*above 0 % and up to 100 %*"),
        ("--ngram-contended=much", "*--ngram-contended is not what it should be*"),
        ("--ngram-repeats=1.5", "*a whole number from 0 to 1000*"),
        ("--ngram-repeats=1e9", "*a whole number from 0 to 1000*"),
        ("--ngram-settle=-1", "*seconds from 0 to 86400*"),
        ("--ngram-settle=nan", "*seconds from 0 to 86400*"),
        ("--ngram-cool-deadline=inf", "*seconds from 0 to 86400*"),
        ("--ngram-max-temp=0", "*degrees Celsius from 1 to 200*"),
        ("--ngram-max-temp=warm", "*degrees Celsius*"),
        ("--ngram-temp-sensor=no-such-chip", "*the temperature cannot be watched: no sensor no-such-chip*"),
    ],
)
def test_an_option_that_cannot_be_followed_is_told_before_the_run(
    project: Project, option: str, said: str
) -> None:
    """Nothing is measured, and the line says what to give."""
    result = project.run(option)
    assert result.ret == 2
    result.stdout.fnmatch_lines([said])
    assert not list((project.path / ".ngram").rglob("*.log"))
