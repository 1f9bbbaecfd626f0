"""Before the hours are spent: the estimate, where it comes from, the probe and the budget."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.measure.journal import read

if TYPE_CHECKING:
    from conftest import Project

LOOK = ("--collect-only", "-q")
PLAIN = ("-k", "none or mtp1")


@pytest.fixture
def fresh(project: Project) -> Project:
    """A project of three blocks on a host that has measured nothing yet."""
    shutil.rmtree(project.cache / "timings", ignore_errors=True)
    project.edit("blocks: 1", "blocks: 3")
    return project


def logs(project: Project) -> list[Path]:
    return sorted((project.path / ".ngram").rglob("*.log"))


def duration_of(lines: list[str]) -> str:
    (row,) = [line for line in lines if re.match(r" +tiny +\d+ × ", line)]
    return re.split(r" {2,}", row.strip())[-1]


def test_nothing_known_is_said_and_nothing_starts(fresh: Project) -> None:
    """Looking at a plan on a new host starts no server, generates no model, and makes no duration up."""
    result = fresh.run(*LOOK)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*tiny*12 × —*24*1152 + —*unknown",
            "*duration unknown: nothing measured yet on this host with this engine of tiny; --ngram-probe*",
        ]
    )
    assert not (fresh.path / ".ngram").exists()


def test_a_run_is_remembered_and_held_against_its_plan(fresh: Project) -> None:
    """What one run measured is the next one's estimate, the same in a look and in the run itself."""
    first = fresh.run(*PLAIN)
    assert first.ret == 0
    first.stdout.fnmatch_lines(["*duration unknown*", "time: nothing was known before, took *"])
    look = fresh.run(*LOOK, *PLAIN)
    look.stdout.fnmatch_lines(["*figures of tiny: earlier runs on this host (last ????-??-??)"])
    again = fresh.run(*PLAIN)
    planned = duration_of(again.outlines)
    assert planned == duration_of(look.outlines)
    again.stdout.fnmatch_lines([f"time: planned {planned}, took *"])


def test_a_config_that_was_not_measured_is_told(fresh: Project) -> None:
    """The baseline's figures stand in for it, by name."""
    fresh.run("-k", "none and b1")
    result = fresh.run(*LOOK, *PLAIN)
    result.stdout.fnmatch_lines(
        ["*not measured yet, so taken to be as fast as none, with 25% on top: tiny/mtp1"]
    )


def test_a_saved_run_and_a_journal_give_estimates(fresh: Project) -> None:
    """Either file of an earlier run tells how long this one takes, and is named with its engine."""
    fresh.measure(*PLAIN)
    journal = fresh.journal
    shutil.rmtree(fresh.cache / "timings")
    for name in ("run.json", str(journal)):
        result = fresh.run(*LOOK, *PLAIN, f"--ngram-estimate-from={name}")
        assert duration_of(result.outlines).endswith((" s", "min"))
        result.stdout.fnmatch_lines([f"*figures of tiny: {Path(name).name} (xllamacpp *)"])


def test_a_file_that_is_no_run_is_refused(fresh: Project) -> None:
    """It ends the run before anything is measured."""
    result = fresh.run("--ngram-estimate-from=bench/matrix.yaml")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*--ngram-estimate-from is neither a saved JSON nor a journal*"])


def test_a_damaged_memory_is_said_and_done_without(fresh: Project) -> None:
    """A file of kept timings that cannot be read stops nothing."""
    fresh.run("-k", "none and b1")
    for path in (fresh.cache / "timings").glob("*.json"):
        path.write_text("{")
    result = fresh.run(*LOOK)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["warning: the kept timings * cannot be read*"])
    assert duration_of(result.outlines) == "unknown"


def test_the_probe_takes_one_start(fresh: Project) -> None:
    """Only when it is asked for; it says what it saw, is in no result, and is remembered."""
    result = fresh.run(*LOOK, "--ngram-probe")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*probed tiny: load * s, pp * t/s, tg * t/s; one start and request"])
    assert len(logs(fresh)) == 1
    assert list((fresh.path / ".ngram").glob("*.jsonl")) == []
    (row,) = [line for line in result.outlines if re.match(r" +tiny +\d+ × ", line)]
    assert re.search(r" 1152 \+ \d+ ", row)  # the template and the tokenizer were asked for the prompts
    assert "not counted" not in result.stdout.str()
    assert "as it ends" not in result.stdout.str()  # nothing is run
    again = fresh.run(*LOOK, "--ngram-probe")
    assert "probed" not in again.stdout.str()
    assert duration_of(again.outlines) == duration_of(result.outlines)
    assert len(logs(fresh)) == 1


def test_a_probe_that_fails_stops_nothing(fresh: Project) -> None:
    """A model that cannot be served is unknown; its cells will be refused with their own reason."""
    fresh.edit("generate: {target: 0.7}", "path: nowhere.gguf")
    result = fresh.run(*LOOK, "--ngram-probe")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["warning: the probe of tiny failed: *"])
    assert duration_of(result.outlines) == "unknown"
    result.stdout.fnmatch_lines(["*duration unknown: *; the probe did not end well"])


def test_a_budget_that_was_passed_is_told(fresh: Project) -> None:
    """A budget is a plan: the end says by how much it was passed, if it was."""
    _timings_that_cost(fresh, start_s=0.001, cell_s=0.001)
    passed = fresh.run(*PLAIN, "--ngram-budget=1s")
    assert passed.ret == 0
    passed.stdout.re_match_lines([r"time: planned 0\.\d s, took .* s, .* s over the budget of 1\.0 s"])


def test_a_budget_gives_up_prompts_before_blocks(fresh: Project) -> None:
    """It deselects through pytest, keeps whole blocks with the same prompt, and says what it gave up."""
    _timings_that_cost(fresh, start_s=1.0, cell_s=1.0)
    # nine starts and 18 cells take 28.5 s, those of mtp1 with their margin; with one prompt 18.75 s
    result = fresh.run(*PLAIN, *LOOK, "--ngram-budget=20s")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*budget: 2 prompts → 1; 18 cells → 9; 19 s of 20 s",
            "*  prompts that stay: word-en",
            "*9/24 tests collected (15 deselected)*",
        ]
    )
    ids = [line for line in result.outlines if "::test_cell[" in line]
    assert len(ids) == 9
    assert all("/word-en/" in line for line in ids)


def test_a_budget_probes_by_itself(fresh: Project) -> None:
    """A run with a budget on a new host finds out first, says so, and measures what fits."""
    result = fresh.run("-k", "none and word-en and b1", "--ngram-budget=10m")
    result.assert_outcomes(passed=2, deselected=22)
    result.stdout.fnmatch_lines(
        [
            "*the budget needs timings, so models of which nothing is known are probed",
            "*probed tiny: load *",
            "*budget: everything fits, * of 10 min",
        ]
    )
    assert len(logs(fresh)) == 3
    assert len(read(fresh.journal).starts) == 2  # a probe is no part of the run


def _timings_that_cost(project: Project, start_s: float, cell_s: float) -> None:
    """Make the host remember other speeds than it has: a probe's file with figures of our own."""
    project.run(*LOOK, "--ngram-probe")
    (path,) = (project.cache / "timings").glob("*.json")
    kept = json.loads(path.read_bytes())
    for timing in kept["timings"]["configs"].values():
        timing |= {
            "starts": 1,
            "load_s": start_s,
            "warmup_s": 0,
            "rounds": 1,
            "prompt_s": 0,
            "predicted_s": 0,
        }
        timing |= {"wall_s": cell_s}
    kept["timings"]["between"] = {"cells": 0, "seconds": 0}
    path.write_text(json.dumps(kept))


def test_a_budget_that_is_too_small_measures_nothing(fresh: Project) -> None:
    """The error has the numbers, the exit code is that of a failed collection, and no cell runs."""
    _timings_that_cost(fresh, start_s=1.0, cell_s=1.0)
    started = logs(fresh)
    for options in ((), ("--collect-only",), ("--continue-on-collection-errors",)):
        result = fresh.run(*PLAIN, "--ngram-budget=5s", *options)
        assert result.ret == (1 if "continue" in str(options) else pytest.ExitCode.INTERRUPTED)
        result.stdout.fnmatch_lines(
            [
                "OptionError: the budget is too small for the least that can be measured",
                "*checked: the least, 1 block with 1 prompt: 3 cells on 3 server starts, 6.2 s",
                "*checked: 3 blocks, which a verdict needs: 9 cells on 9 server starts, 19 s",
                "*to do: give --ngram-budget=19s or more*",
            ]
        )
    assert logs(fresh) == started


def test_a_budget_that_is_no_duration_is_refused(fresh: Project) -> None:
    """A number without its unit is not guessed at."""
    result = fresh.run("--ngram-budget=2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*--ngram-budget is no duration: '2'*"])


def test_a_look_at_a_budget_without_timings_starts_nothing(fresh: Project) -> None:
    """Nothing can be chosen then, so all cells stay, and it is told how to find out."""
    result = fresh.run(*LOOK, "--ngram-budget=1h")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*the budget cannot be kept: nothing is known; --ngram-probe finds out"])
    assert not logs(fresh)


def test_a_resumed_budget_chooses_the_same_cells(fresh: Project) -> None:
    """The journal knows the choice; measured cells cost nothing, and a larger budget adds to them."""
    _timings_that_cost(fresh, start_s=1.0, cell_s=1.0)
    first = fresh.run(*PLAIN, "--ngram-budget=20s")
    assert first.ret == 0
    journal = fresh.journal
    saved = read(journal)
    assert saved.budget is not None
    assert (saved.budget.blocks, saved.budget.prompts) == (3, 1)
    assert len(saved.cells) == 9

    again = fresh.run(*PLAIN, "--ngram-budget=20s", f"--ngram-resume={journal}")
    again.assert_outcomes(passed=9, deselected=15)
    again.stdout.fnmatch_lines(["*those that the resumed run had chosen", "*nothing is left to measure"])
    assert len(read(journal).cells) == 9

    more = fresh.run(*PLAIN, "--ngram-budget=10m", f"--ngram-resume={journal}")
    more.assert_outcomes(passed=18, deselected=6)
    assert {record.cell for record in saved.cells} < {record.cell for record in read(journal).cells}
    assert len(read(journal).cells) == 18
