"""A sweep's settings are all combinations that a drafter can have, and prompts fall into two halves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.drafting.grid import halves, read_grid, settings
from pytest_ngram.drafting.policy import parse
from pytest_ngram.errors import OptionError


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("size_n=3", {"size_n": (3,)}),
        ("size_n=3..6", {"size_n": (3, 4, 5, 6)}),
        ("size_n=3..12/4", {"size_n": (3, 7, 11)}),
        ("size_n=3..5,size_m=4,8,16", {"size_n": (3, 4, 5), "size_m": (4, 8, 16)}),
        ("size_n=1,4..5, 9", {"size_n": (1, 4, 5, 9)}),
    ],
)
def test_a_grid_is_read(text: str, grid: dict[str, tuple[int, ...]]) -> None:
    """A number has single values, ranges with both ends, ranges with a step, or several of these."""
    assert read_grid(text) == grid


@pytest.mark.parametrize(
    "text", ["", "3..4", "size_n", "size_n=", "size_n=a", "size_n=5..3", "size_n=1..9/0", "=3"]
)
def test_what_is_no_grid_is_refused(text: str) -> None:
    """What cannot be read, or has no values, is refused with the form that is expected."""
    with pytest.raises(OptionError) as error:
        read_grid(text)
    assert "--sweep size_n=3..12,size_m=4,8,16" in error.value.fix


def test_settings_are_all_combinations() -> None:
    """The issue of a sweep is one policy for each combination, in the grid's order."""
    found = settings(parse("ngram-simple"), read_grid("size_n=3..12,size_m=4,8,16"))
    assert len(found) == 30
    assert str(found[0]) == "ngram-simple:size_n=3,size_m=4,min_hits=1"
    assert str(found[-1]) == "ngram-simple:size_n=12,size_m=16,min_hits=1"


def test_a_number_changes_in_all_drafters_that_have_it() -> None:
    """In a stack the others stay as they are, and so does the variant."""
    found = settings(parse("ngram-map-k@documented+ngram-simple+ngram-cache"), {"size_n": (5,)})
    assert found == [parse("ngram-simple:size_n=5+ngram-map-k:size_n=5@documented+ngram-cache")]


def test_settings_that_cannot_be_are_left_out() -> None:
    """`min` above `max` is none; equal settings count once."""
    found = settings(parse("prompt-lookup"), {"min": (2, 3, 4), "max": (3, 3)})
    assert found == [parse("prompt-lookup:min=2,max=3"), parse("prompt-lookup:min=3,max=3")]


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"n_match": (3,)}, "has a number 'n_match'"),
        ({"size_n": tuple(range(1, 1001)), "size_m": tuple(range(1, 201))}, "200000 settings are too many"),
        ({"size_n": (0,)}, "size_n=0"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(grid: dict[str, tuple[int, ...]], said: str) -> None:
    """A number that no drafter has, one out of its bounds, and too many settings are errors."""
    with pytest.raises(OptionError) as error:
        settings(parse("ngram-simple"), grid)
    assert said in error.value.cause


def test_a_grid_with_no_setting_left_is_refused() -> None:
    """Where `min` is above `max` in every combination there is nothing to replay, and that is said."""
    with pytest.raises(OptionError) as error:
        settings(parse("prompt-lookup"), {"min": (5,), "max": (3,)})
    assert "no setting" in error.value.cause


@given(prompts=st.lists(st.text(min_size=1, max_size=3), max_size=20))
def test_halves_have_each_prompt_once(prompts: list[str]) -> None:
    """Every prompt is in exactly one half, and the halves differ by one at most."""
    first, second = halves(prompts)
    assert sorted([*first, *second]) == sorted(set(prompts))
    assert 0 <= len(first) - len(second) <= 1


@pytest.mark.parametrize("text", ["size_n=1..999999999", "size_n=0..100000", "size_n=1..60000,1..60000"])
def test_a_range_is_not_written_out_before_it_is_counted(text: str) -> None:
    """A billion values would fill the memory before anybody said that they are too many."""
    with pytest.raises(OptionError, match="too many"):
        read_grid(text)
