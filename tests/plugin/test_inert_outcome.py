"""A config whose type never drafted is inert: a failure with its reason, unless the matrix expects it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.measure.journal import read
from pytest_ngram.record import from_builtins, run_from_builtins

if TYPE_CHECKING:
    from conftest import Project

INERT = "  ngram-mod: {types: [ngram-mod]}\n  mtp1+ngram-mod: {types: [draft-mtp, ngram-mod]}\n"


@pytest.fixture
def inert_project(project: Project) -> Project:
    """Its prompts never give ngram-mod the 24 tokens that it wants to match."""
    project.edit("prompt_sets:\n", f"{INERT}prompt_sets:\n")
    return project


def configs_of(data: dict[str, Any]) -> set[str]:
    return {from_builtins(bench["extra_info"]["ngram"]).cell.config for bench in data["benchmarks"]}


def expect(project: Project, config: str, why: str = "prompts are short") -> None:
    project.edit("flags: -c 4096 -t 1}", f"flags: -c 4096 -t 1, abstains: {{{config}: {why}}}}}")


def test_a_type_that_never_drafts_fails_its_cells(inert_project: Project) -> None:
    """Exit code 1; its cells are failed ones with the reason and what was measured, and no benchmark."""
    data = inert_project.measure("-k", "none/ or ngram-mod/", exit_code=1)
    assert configs_of(data) == {"none"}
    failed = run_from_builtins(data["ngram"]).failed_cells
    assert {record.cell.config for record in failed} == {"ngram-mod", "mtp1+ngram-mod"}
    assert {record.outcome.status for record in failed} == {"inert"}
    assert all(record.rounds and record.memory for record in failed)
    reasons = {record.cell.config: str(record.outcome.reason) for record in failed}
    for config in ("ngram-mod", "mtp1+ngram-mod"):
        assert reasons[config].startswith("ngram-mod never drafted anything, asked ")
    assert "draft-mtp: asked" in reasons["mtp1+ngram-mod"]


def test_it_is_shown_as_inert_and_never_as_fast(inert_project: Project) -> None:
    """The row has no number, the reason stands once below, and the last lines say what helps."""
    result = inert_project.run("-k", "none/ or ngram-mod/", "--benchmark-quiet")
    assert result.ret == 1
    result.assert_outcomes(passed=6, failed=2, deselected=4)
    result.stdout.fnmatch_lines(
        [
            "inert, all of tiny/ngram-mod at temperature 0: ngram-mod never drafted anything*",
            "*to do: *models.tiny.abstains: {ngram-mod: why}*",
        ]
    )
    result.stdout.fnmatch_lines_random(
        [
            "  ngram-mod      *  0 ok, 2 inert",
            "  mtp1+ngram-mod *  0 ok, 2 inert",
            "  inert: tiny/ngram-mod at temperature 0, 2 cells: ngram-mod never drafted anything, asked *",
            "4 inert, which measuring again will not change*",
        ]
    )
    (row,) = [line for line in result.outlines if re.match(r"  ngram-mod .* ok, ", line)]
    assert row.split()[1:9] == ["—"] * 8
    assert "to measure them now" not in result.stdout.str()


def test_an_expected_abstention_is_measured_and_passes(inert_project: Project) -> None:
    """Exit code 0: the cells stay results, and row, note and record say that nothing was drafted and why."""
    expect(inert_project, "ngram-mod")
    data = inert_project.measure("-k", "none/ or ngram-mod/ and not mtp1")
    assert configs_of(data) == {"none", "ngram-mod"}
    assert data["ngram"]["failed_cells"] == []
    records = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    assert {str(record.outcome.reason) for record in records if record.cell.config == "ngram-mod"} == {
        "inert, as expected: prompts are short"
    }
    result = inert_project.run("-k", "ngram-mod/ and not mtp1", f"--ngram-resume={inert_project.journal}")
    result.stdout.fnmatch_lines(
        ["  ngram-mod *2 ok, inert as expected", "  ngram-mod: inert, as expected: prompts are short"]
    )


def test_an_abstention_of_a_stack_excuses_one_type(inert_project: Project) -> None:
    """ngram-mod is told of and drafts nothing: fine. draft-mtp in its place: a warning, and inert."""
    expect(inert_project, "mtp1+ngram-mod", "{ngram-mod: prompts are short}")
    good = inert_project.run("-k", "mtp1+ngram-mod/", "--benchmark-quiet")
    assert good.ret == 0
    told = "inert, as expected (ngram-mod drafted nothing: prompts are short)"
    good.stdout.fnmatch_lines([f"  mtp1+ngram-mod: {told}"])
    inert_project.edit("{ngram-mod: prompts", "{draft-mtp: prompts")
    bad = inert_project.run("-k", "mtp1+ngram-mod/", f"--ngram-resume={inert_project.journal}")
    assert bad.ret == 1
    bad.stdout.fnmatch_lines_random(
        [
            "*warning: models.tiny.abstains: mtp1+ngram-mod is no longer true*(draft-mtp * tokens)",
            "inert, all of tiny/mtp1+ngram-mod at temperature 0: ngram-mod never drafted anything*",
            "*abstains: {mtp1+ngram-mod: {ngram-mod: why}}",
        ]
    )


def test_an_abstention_that_is_no_longer_true_is_told(inert_project: Project) -> None:
    """A config that is said to abstain, and drafts, is a result; a line says that the matrix is wrong."""
    expect(inert_project, "mtp1")
    result = inert_project.run("-k", "mtp1/ and not +", "--benchmark-quiet")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*warning: models.tiny.abstains: mtp1 is no longer true: at temperature 0 it drafted (draft-mtp *"]
    )


def test_a_resumed_run_comes_to_the_same_without_measuring_again(inert_project: Project) -> None:
    """The journal keeps what was measured; it is judged anew, and nothing is asked of a server again."""
    inert_project.measure("-k", "ngram-mod/ and not mtp1", exit_code=1)
    journal = inert_project.journal
    assert {record.outcome.status for record in read(journal).cells} == {"ok"}
    logs = set((inert_project.path / ".ngram").rglob("*.log"))
    again = inert_project.measure("-k", "ngram-mod/ and not mtp1", f"--ngram-resume={journal}", exit_code=1)
    assert [cell["outcome"]["status"] for cell in again["ngram"]["failed_cells"]] == ["inert", "inert"]
    assert again["ngram"]["run"]["resumed_cells"] == 2
    expect(inert_project, "ngram-mod")
    expected = inert_project.measure("-k", "ngram-mod/ and not mtp1", f"--ngram-resume={journal}")
    assert configs_of(expected) == {"ngram-mod"}
    assert set((inert_project.path / ".ngram").rglob("*.log")) == logs


def test_an_interrupted_run_judges_nothing_that_is_not_whole(inert_project: Project) -> None:
    """What was not measured yet may still draft."""
    (inert_project.bench / "conftest.py").write_text(
        "import pytest\n"
        "def pytest_runtest_logreport(report):\n"
        "    if report.when == 'teardown' and 'word-en' in report.nodeid:\n"
        "        pytest.exit('stop', 2)\n"
    )
    result = inert_project.run("-k", "ngram-mod/ and not mtp1", "--benchmark-quiet")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["  ngram-mod *1 ok", "1 not measured, 0 failed; to measure them now:"])


def test_inert_on_a_part_of_the_prompts_is_a_warning(inert_project: Project) -> None:
    """Where `-k` or a budget left prompts out it stays out of the results, but fails nothing."""
    result = inert_project.run("-k", "ngram-mod/word-en and not mtp1", "--benchmark-quiet")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "  ngram-mod *1 inert*",
            "*warning: tiny/ngram-mod at temperature 0 drafted nothing, but only 1 of 2 prompts*",
            "1 inert on a part of the profile's prompts: run more of them first",
        ]
    )
    assert "measuring again will not change" not in result.stdout.str()
