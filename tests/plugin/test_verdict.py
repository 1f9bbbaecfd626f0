"""The end of a run says what to do, and why; where nothing can be said, that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project


def _answer(result: pytest.RunResult) -> list[str]:
    """The line of the answer and those below it."""
    lines = result.outlines
    (first,) = [i for i, line in enumerate(lines) if line.startswith("tiny, temperature 0: ")]
    return lines[first : lines.index("", first)]


def test_a_run_ends_with_the_answer_and_a_line_for_each_config(project: Project) -> None:
    """One block can tell nothing: each config says so, with how many more it takes, after the saved path."""
    result = project.run("--benchmark-quiet", "--benchmark-autosave", "-k", "none or mtp1")
    answer, line, *rest = _answer(result)
    assert answer.startswith("tiny, temperature 0: nothing is sure to pay; this run cannot tell about mtp1")
    assert line.startswith("  mtp1  cannot tell: ")
    # cells of a busy host do not enter, and then that is what is said
    assert "in 1 of the 3 blocks that it takes at least: 2 more" in line or any(
        "contended" in s for s in rest
    )
    result.stdout.fnmatch_lines(["saved: *", "tiny, temperature 0: *"])


def test_without_the_baseline_nothing_is_claimed(project: Project) -> None:
    """`-k mtp`: no verdict and no percent."""
    assert _answer(project.run("--benchmark-quiet", "-k", "mtp"))[0] == (
        "tiny, temperature 0: nothing is claimed: there is no `none` in this run to compare with"
    )


def test_kinds_of_prompts_are_saved(project: Project) -> None:
    """The JSON alone makes the verdict that the terminal showed: kinds of prompts stand in it."""
    saved = project.measure("-k", "mtp1")["ngram"]["prompts"]
    assert {each["prompt"]: each["kind"] for each in saved} == {"word-en": "en", "word-ru": "ru"}


def test_limits_that_cannot_be_read_are_refused_before_the_run(project: Project) -> None:
    """A typo in --ngram-adopt costs no minute of measuring."""
    result = project.run("-k", "mtp", "--ngram-adopt", "tg:5%")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*--ngram-adopt cannot be read: tg:5%*"])
    assert not (project.path / ".ngram").exists()
