"""Leakage: what of a prompt is in a corpus, against a slow search that can be read in a minute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_ngram.corpus import leakage
from pytest_ngram.corpus.leakage import GRAM, NEAR_SHARE, Found, find, leak
from pytest_ngram.matrix.spec import LeakageSpec

Text = list[int]


def ids(texts: Sequence[Text]) -> list[leakage.Ids]:
    return [np.array(text, dtype=np.int32) for text in texts]


def search(prompts: Sequence[Sequence[Text]], messages: Sequence[Text]) -> list[Found]:
    return find([ids(turns) for turns in prompts], ids(messages))


def grams(text: Text) -> list[tuple[int, ...]]:
    return [tuple(text[i : i + GRAM]) for i in range(len(text) - GRAM + 1)]


def run_of(text: Text, message: Text) -> int:
    """The longest run of both: every place of one against every place of the other."""
    longest = 0
    for i in range(len(text)):
        for j in range(len(message)):
            length = 0
            while (
                i + length < len(text)
                and j + length < len(message)
                and text[i + length] == message[j + length]
            ):
                length += 1
            longest = max(longest, length)
    return longest


def slow(turns: Sequence[Text], messages: Sequence[Text]) -> Found:
    runs = [max((run_of(turn, message) for turn in turns), default=0) for message in messages]
    run = max(runs, default=0)
    first = runs.index(run) if run else None
    own = [gram for turn in turns for gram in grams(turn)]
    if not own:
        return Found(run if any(turns) else None, first, None, None, None, None)
    shares = [sum(gram in grams(message) for gram in own) / len(own) for message in messages]
    everywhere = {gram for message in messages for gram in grams(message)}
    exact = tuple(i for i, m in enumerate(messages) if any(m == t for t in turns if len(t) >= GRAM))
    near = tuple(i for i, share in enumerate(shares) if share >= NEAR_SHARE and i not in exact)
    share = sum(gram in everywhere for gram in own) / len(own)
    return Found(run, first, share, max(shares, default=0.0), exact, near)


few = st.integers(0, 2)
texts = st.lists(few, max_size=40)
many = st.lists(texts, max_size=5)


@st.composite
def mixed(draw: st.DrawFn) -> tuple[list[list[Text]], list[Text]]:
    """Prompts and messages, some of which were copied from the others, whole or in part."""
    messages = draw(many)
    prompts = draw(st.lists(st.lists(texts, max_size=3), max_size=4))
    for turns in prompts:
        if messages and draw(st.booleans()):
            message = draw(st.sampled_from(messages))
            begin, end = sorted(draw(st.tuples(st.integers(0, 40), st.integers(0, 40))))
            turns.append(draw(texts) + message[begin:end] + draw(texts))
    return prompts, messages


@settings(max_examples=300, deadline=None)
@given(mixed())
@example(([[[1] * 20]], [[1] * 40, [1] * 15]))
@example(([[[0, 1] * 20], []], [[0, 1] * 9, [1, 0] * 30]))
@example(([[[1, 2, 3, 4, 5], [6, 7, 8, 9]]], [[1, 2, 3, 4, 5, 6, 7, 8, 9]]))
@example(([[[1, 2, 3, 4, 5, 6, 7, 8, 9]]], [[1, 2, 3, 4], [5, 6, 7, 8, 9]]))
def test_it_finds_what_a_slow_search_finds(texts: tuple[list[list[Text]], list[Text]]) -> None:
    """Runs, places, shares and duplicates are those of the comparison of every place with every other."""
    prompts, messages = texts
    for quick, turns in zip(search(prompts, messages), prompts, strict=True):
        expected = slow(turns, messages)
        assert quick.share == pytest.approx(expected.share)
        assert quick.of_one_message == pytest.approx(expected.of_one_message)
        assert (quick.run, quick.run_message) == (expected.run, expected.run_message)
        assert (quick.exact, quick.near) == (expected.exact, expected.near)


@settings(max_examples=50, deadline=None)
@given(mixed(), st.sampled_from([1, 3, 17]))
def test_the_size_of_a_chunk_changes_nothing(
    texts: tuple[list[list[Text]], list[Text]], chunk_tokens: int
) -> None:
    """What lies over the border of two chunks is found, once."""
    prompts, messages = texts
    whole = search(prompts, messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "_CHUNK_TOKENS", chunk_tokens)
        assert search(prompts, messages) == whole


@pytest.mark.parametrize("multiplier", [0, 1, 1 << 63, 1 << 40])
def test_a_bad_hash_finds_nothing_that_is_not_there(monkeypatch: pytest.MonkeyPatch, multiplier: int) -> None:
    """Windows with one hash are compared token by token: in other order they are other windows."""
    monkeypatch.setattr(leakage, "_MULTIPLIER", multiplier)
    numbers = list(range(100, 140))
    (found,) = search([[numbers]], [numbers[::-1], [*numbers[20:], *numbers[:20]]])
    assert (found.run, found.run_message, found.exact, found.near) == (20, 1, (), ())
    assert found.share == pytest.approx(26 / 33)


def test_the_filter_lets_no_other_window_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all hashes of the corpus in one place of the filter, only equal windows are hits."""
    monkeypatch.setattr(leakage, "_FILTER_BITS", 1)
    numbers = np.random.default_rng(1).integers(0, 50, 5000).tolist()
    (found,) = search([[numbers[1000:1040]]], [numbers])
    assert (found.run, found.share) == (40, 1.0)


def test_a_prompt_without_an_8_gram_is_unknown_not_clean() -> None:
    """Share and duplicates of a few words are null; their run is still told, and null without a word."""
    short, none = search([[[1, 2, 3]], [[]]], [[1, 2, 3]])
    assert short == Found(3, 0, None, None, None, None)
    assert none == Found(None, None, None, None, None, None)


def test_duplicates_are_told_apart() -> None:
    """A message equal to a turn is exact; one with four fifths of the 8-grams is near, below it neither."""
    prompt = list(range(28))  # 21 8-grams
    almost, less = prompt[:24], prompt[:23]  # 17 and 16 of them
    (found,) = search([[prompt]], [less, almost, [99, *prompt], prompt])
    assert (found.exact, found.near) == ((3,), (1, 2))


@pytest.mark.parametrize(
    ("run", "share", "reason"),
    [
        (31, 0.10, None),
        (32, 0.05, "a run of 32 tokens"),
        (9, 0.11, "11% of its 8-grams"),
        (7, None, None),
        (None, None, None),
    ],
)
def test_the_bounds_are_inclusive(run: int | None, share: float | None, reason: str | None) -> None:
    """31 tokens and 10 % pass, 32 tokens or more than 10 % do not; what is unknown is no leak."""
    default = LeakageSpec()
    bounds = {"max_run_tokens": default.max_run_tokens, "max_share": default.max_share}
    assert leak(run, share, **bounds) == reason
