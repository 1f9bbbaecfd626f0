"""pytest-benchmark's own options on cells; those that cannot work are refused with a reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project


def test_saved_runs_compare(project: Project) -> None:
    """`--benchmark-save` and `--benchmark-compare` find the same cells again by their ids."""
    project.run("-k", "mtp1", "--benchmark-save=one")
    result = project.run("-k", "mtp1", "--benchmark-compare=0001", "--benchmark-save=two")
    assert result.ret == 0
    # in any order: the table is sorted by speed
    result.stdout.fnmatch_lines_random(
        ["*tiny/mtp1/word-en/t0/b1*(0001_one)*", "*tiny/mtp1/word-en/t0/b1*(NOW)*"]
    )


def test_a_regression_fails_the_run_after_our_tables(project: Project) -> None:
    """compare-fail raises inside the terminal summary; the tables are already printed then."""
    project.run("-k", "none or mtp1", "--benchmark-save=fast")
    (saved,) = (project.path / ".benchmarks").rglob("0001_fast.json")
    data = json.loads(saved.read_text())
    for bench in data["benchmarks"]:
        for name in ("min", "max", "mean", "median"):
            bench["stats"][name] /= 1000
    saved.write_text(json.dumps(data))
    result = project.run(
        "-k",
        "none or mtp1",
        "--benchmark-compare=0001",
        "--benchmark-compare-fail=mean:100%",
        "--benchmark-quiet",
    )
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "Performance has regressed" in text
    result.stdout.fnmatch_lines(["*= pytest-ngram =*", "tiny: 2 prompts*", "  mtp1 *"])


@pytest.mark.parametrize("group", ["param:config", "param:prompt", "param:model,param:block", "group"])
def test_grouping_by_what_a_cell_is(project: Project, group: str) -> None:
    """`--benchmark-group-by=param:NAME` knows model, config, prompt, temperature and block."""
    result = project.run("-k", "mtp1 or cache", f"--benchmark-group-by={group}")
    assert result.ret == 0
    heading = {"param:config": "config=mtp1", "param:prompt": "prompt=word-en"}.get(group, "tiny")
    result.stdout.fnmatch_lines([f"*benchmark '*{heading}*': *"])


def test_disabled_benchmarks_still_run_and_are_journalled(project: Project) -> None:
    """With `--benchmark-disable` the cells are measured once and kept, without statistics."""
    result = project.run("-k", "mtp1", "--benchmark-disable")
    result.assert_outcomes(passed=2, deselected=6)
    assert project.journal.read_bytes().count(b'"kind":"cell"') == 2


def test_skipped_benchmarks_measure_nothing(project: Project) -> None:
    """With `--benchmark-skip` no server starts and no cell is recorded."""
    result = project.run("--benchmark-skip")
    result.assert_outcomes(skipped=8)
    assert not (project.path / ".ngram").exists()


def test_only_benchmarks(project: Project) -> None:
    """`--benchmark-only` skips what is no cell."""
    (project.bench / "test_other.py").write_text("def test_other(): pass")
    result = project.run("-k", "mtp1 or other", "--benchmark-only")
    result.assert_outcomes(passed=2, skipped=1, deselected=6)


def test_a_calibrated_benchmark_is_refused(project: Project) -> None:
    """`benchmark(f)` would spin on a clock that stands still: an error that says what to call."""
    cells = project.bench / "test_cells.py"
    text = cells.read_text()
    pedantic = "benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds)"
    assert pedantic in text
    cells.write_text(text.replace(pedantic, "benchmark(ngram_cell.request)"))
    result = project.run("-k", "mtp1 and word-en")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*OptionError: this benchmark is being calibrated*", "*benchmark.pedantic*"])


@pytest.mark.parametrize("options", [["-n", "2"], ["-n", "1"], ["--dist", "load", "--tx", "popen"]])
def test_parallel_timing_is_refused(project: Project, options: list[str]) -> None:
    """xdist would let servers slow each other down: no cell is measured, and the error says why."""
    result = project.run(*options)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*timing cells cannot run in parallel on one host*"])
    assert "passed" not in result.stdout.str()
    assert not (project.path / ".ngram").exists()


def test_n_0_is_not_parallel(project: Project) -> None:
    """`-n 0` runs here, in one process, and so is allowed."""
    assert project.run("-k", "mtp1 and word-en", "-n", "0").ret == 0


@pytest.mark.parametrize("options", [["-p", "no:randomly"], ["--ff"], ["-v"]])
def test_the_order_is_the_plans(project: Project, options: list[str]) -> None:
    """Cells run in the planned order: the baseline first and last."""
    result = project.pytester.runpytest_subprocess("bench", "-v", *options)
    ran = [
        line.split("[")[1].split("]")[0]
        for line in result.outlines
        if "test_cell[" in line and "PASSED" in line
    ]
    configs = [name.split("/")[1] for name in ran]
    assert configs[:2] == configs[-2:] == ["none", "none"]
    assert len(set(configs[2:-2])) == 2
    assert configs[2] == configs[3]
