"""Small texts with what is drafted after them: the rules of each drafter, by example."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Draft = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "numbers", "expected"),
    [
        ("1 2 1 2 1 2", (3, 3, 12), "1 2"),
        ("9 9 9 9", (2, 3, 12), "9"),
        ("8 1 2 3 40 9 1 2 3 50 8 1 2 3", (1, 3, 12), "40"),
        ("7 1 2 3 40 8 1 2 3 50 9 1 2 3", (1, 3, 12), "50"),
        ("7 7 1 2 3 40 0 0 1 2 3 50 7 7 1 2 3", (1, 3, 3), "50"),
        ("5 6 42 0 5 6", (2, 3, 12), "none"),
        ("5 6 42 0 5 6", (2, 2, 12), "42 0"),
    ],
)
def test_prompt_lookup(draft: Draft, text: str, numbers: tuple[int, int, int], expected: str) -> None:
    """The longest match wins, then the latest; it is capped, and the copy ends with the text."""
    n, low, high = numbers
    assert draft(f"prompt-lookup:n={n},min={low},max={high}", text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "documented"),
    [
        # n + m + 1 tokens before the last are too few, one more is enough
        ("0 5 6 7 5 6", "none", "7 5"),
        ("0 0 5 6 7 5 6", "7 5", "7 5"),
        # a match at place 0 does not count
        ("5 6 7 8 0 0 0 5 6", "none", "7 8"),
        # the latest match decides, although less than a key follows it and the one before has enough
        ("0 0 0 5 6 7 8 0 5 6 5 6", "none", "5 6"),
        # nothing is drafted that is shorter than its key
        ("0 0 0 0 0 0 5 6 5 6", "none", "5 6"),
    ],
)
def test_ngram_simple(draft: Draft, text: str, expected: str, documented: str) -> None:
    """It copies 2 tokens after the latest earlier 2-gram, and declines where llama.cpp does."""
    assert draft("ngram-simple:size_n=2,size_m=2", text) == expected
    assert draft("ngram-simple:size_n=2,size_m=2@documented", text) == documented


def test_min_hits_is_ignored_as_built(draft: Draft) -> None:
    """One match drafts although two are asked for; as documented it does not, and two do."""
    once, twice = "0 0 5 6 7 8 0 5 6", "0 5 6 7 8 0 5 6 7 8 5 6"
    assert draft("ngram-simple:size_n=2,size_m=2,min_hits=2", once) == "7 8"
    assert draft("ngram-simple:size_n=2,size_m=2,min_hits=2@documented", once) == "none"
    assert draft("ngram-simple:size_n=2,size_m=2,min_hits=2@documented", twice) == "7 8"


def test_ngram_map_k(draft: Draft) -> None:
    """It drafts what followed the latest place of the key in the prompt; `min_hits` is ignored as built."""
    text = "0 5 6 7 8 0 5 6 9 9 0 0 0 0 5 6"
    assert draft("ngram-map-k:size_n=2,size_m=2", text) == "9 9"
    assert draft("ngram-map-k:size_n=2,size_m=2,min_hits=3", text) == "9 9"
    assert draft("ngram-map-k:size_n=2,size_m=2,min_hits=3@documented", text) == "none"


def test_ngram_map_k4v_wants_a_clear_winner(draft: Draft) -> None:
    """7 8 twice against 9 9 once is twice as often, so it drafts; once against once is not.

    As built the draft is what stands after the latest place, not the value that won; as documented it is.
    """
    clear = "0 5 6 7 8 0 5 6 7 8 0 5 6 9 9 0 0 0 0 5 6"
    even = "0 5 6 7 8 0 5 6 9 9 0 0 0 0 5 6"
    assert draft("ngram-map-k4v:size_n=2,size_m=2", clear) == "9 9"
    assert draft("ngram-map-k4v:size_n=2,size_m=2@documented", clear) == "7 8"
    assert draft("ngram-map-k4v:size_n=2,size_m=2", even) == "none"


def test_ngram_mod_goes_on_from_what_it_drafted(draft: Draft) -> None:
    """It drafts token by token until the pool has nothing, and less than `n_min` is no draft."""
    text = "1 2 3 4 5 6 9 9 1 2"
    assert draft("ngram-mod:n_match=2,n_min=1,n_max=3", text) == "3 4 5"
    assert draft("ngram-mod:n_match=2,n_min=1,n_max=64", text) == "3 4 5 6 9 9 1"
    assert draft("ngram-mod:n_match=2,n_min=8,n_max=64", text) == "none"


def test_ngram_cache_takes_the_longest_sure_ngram(draft: Draft) -> None:
    """After 1 2 3 came 4 once, enough for 3 tokens; that after 2 3 came 9 twice is not asked."""
    assert draft("ngram-cache:n_draft=1", "0 2 3 9 0 2 3 9 1 2 3 4 7 1 2 3") == "4"
    assert draft("ngram-cache:n_draft=1", "5 6") == "none"
