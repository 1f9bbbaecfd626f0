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


@pytest.mark.parametrize("profile", ["smoke", "full", "reference"])
def test_every_profile_plans_cells(profile: str) -> None:
    """Everything that the matrix names can be read, and every model has its baseline at both ends."""
    cells = setup(profile).cells
    for model in setup(profile).matrix.models_of(profile):
        passes = {
            cell.start.pass_ for cell in cells if (cell.start.model, cell.start.config) == (model, "none")
        }
        assert passes == {"first", "last"}


def test_smoke_stays_small_and_full_is_the_whole_matrix() -> None:
    """`tox -e bench` takes minutes: what is added to the matrix is for `full`, which leaves nothing out."""
    smoke = {(cell.start.model, cell.start.config) for cell in setup("smoke").cells}
    assert len({config for _model, config in smoke}) == 8
    assert len(setup("smoke").cells) <= 288
    full = {(cell.start.model, cell.start.config) for cell in setup("full").cells}
    matrix = setup("full").matrix
    assert full == {(model, config) for model in matrix.models for config in matrix.configs_of(model)}
    assert {config for _model, config in full} == set(matrix.configs)


def test_types_in_another_order_are_the_only_equal_configs() -> None:
    """L and M of the reference are one configuration, on purpose; no other two of the matrix are."""
    assert setup("full").equal_configs == (("mtp1+ngram-map-k4v", "ngram-map-k4v+mtp1"),)
    assert setup("reference").equal_configs == setup("full").equal_configs
    assert setup("smoke").equal_configs == ()


def test_reference_measures_the_rows_of_the_run_by_hand() -> None:
    """A to M, and C and D with the strict table, on a model that can run all of them."""
    rows = {cell.start.config for cell in setup("reference").cells if cell.start.model == "tiny-moe"}
    assert rows == {
        *("none", "mtp1", "mtp2", "mtp3", "mtp5", "ngram-mod", "mtp1+ngram-mod"),
        *("ngram-cache", "ngram-cache+table", "ngram-cache+strict-table"),
        *("mtp1+ngram-cache", "mtp1+ngram-cache+table", "mtp1+ngram-cache+strict-table"),
        *("mtp1+ngram-map-k4v", "ngram-map-k4v+mtp1"),
    }


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
