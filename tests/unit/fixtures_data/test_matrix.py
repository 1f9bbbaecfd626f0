"""The matrix that ships with the project: it is what the README says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pytest_ngram.measure.setup import Setup, read_setup

ROOT = Path(__file__).parents[3]


@cache
def setup(profile: str) -> Setup:
    return read_setup(ROOT / "bench" / "matrix.yaml", profile)


@pytest.mark.parametrize("profile", ["smoke", "full"])
def test_both_profiles_plan_cells(profile: str) -> None:
    """Everything that the matrix names can be read, and every model has its baseline at both ends."""
    cells = setup(profile).cells
    for model in setup(profile).matrix.models:
        passes = {
            cell.start.pass_ for cell in cells if (cell.start.model, cell.start.config) == (model, "none")
        }
        assert passes == {"first", "last"}


def test_full_covers_all_prompts_and_two_temperatures() -> None:
    """`full` leaves no prompt of a model's sets out."""
    cells = [cell for cell in setup("full").cells if cell.start.model == "smollm2"]
    assert len({cell.prompt for cell in cells}) == 20
    assert {cell.start.temperature for cell in cells} == {0.0, 0.7}


def test_the_instruments_are_measured_with_one_prompt_of_each_class() -> None:
    """Mean acceptance over the four word classes needs all four, at temperature 0, for every config."""
    for model in ("tiny-moe", "deep-moe", "deep-moe-low"):
        by_start: dict[str, set[str]] = {}
        for cell in setup("smoke").cells:
            if cell.start.model == model:
                by_start.setdefault(cell.start.id, set()).add(cell.prompt)
        assert set(map(frozenset, by_start.values())) == {
            frozenset({"word-en", "word-ru", "word-code", "word-phrase"})
        }


def test_the_warm_up_is_in_no_corpus() -> None:
    """A warm-up that stands in the corpus would be drafted by the table."""
    warmup = setup("smoke").matrix.warmup
    assert warmup not in (ROOT / "fixtures" / "corpus" / "demo.jsonl").read_text(encoding="utf-8")


def test_blocks_are_enough_for_a_spread() -> None:
    """One block has no spread."""
    assert all(profile.blocks >= 3 for profile in setup("smoke").matrix.profiles.values())
