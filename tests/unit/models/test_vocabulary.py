"""Two models' vocabularies: the same texts by the same ids or not, and where they part."""

from __future__ import annotations

import pytest

from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.models.vocabulary import (
    Difference,
    first_difference,
    token_lists_differ_at,
    tokenizer_differences,
)


@pytest.mark.parametrize(
    ("tokens", "first", "at"),
    [
        (("a", "b", "c"), 0, None),
        (("a", "b", "c", "pad"), 0, None),
        (("a", "b"), 0, None),
        (("a", "x", "c"), 0, 1),
        (("a", "x", "c"), 2, None),
        (("a", "x", "y"), 2, 2),
        (("abc", "", "c"), 0, 0),
    ],
)
def test_two_token_lists_differ_where_an_id_means_another_text(write_gguf, tokens, first, at):
    """The first such id from `first` on; a list that only goes on after the other's end does not differ."""
    one, other = inspect(write_gguf()), inspect(write_gguf("other.gguf", tokens=tokens))
    assert token_lists_differ_at(one, other, first) == at
    assert token_lists_differ_at(other, one, first) == at


@pytest.mark.parametrize(
    ("tokens", "difference"),
    [
        (("a", "b", "c"), None),
        (("a", "x", "c"), Difference(1, b"b", b"x")),
        (("a", "b"), Difference(2, b"c", None)),
        (("a", "b", "c", "я"), Difference(3, None, "я".encode())),
    ],
)
def test_both_pieces_of_the_first_difference_are_told(write_gguf, tokens, difference):
    """A longer list differs too where equality is asked for; what one of them lacks is None."""
    assert first_difference(inspect(write_gguf()), inspect(write_gguf("b.gguf", tokens=tokens))) == difference


def test_what_cuts_a_text_otherwise_is_told(write_gguf):
    """Equal tokens with other merges, or split into words otherwise, are told apart; a template is not."""
    one = inspect(
        write_gguf(
            extra=lambda w: (w.add_tokenizer_pre("default"), w.add_token_merges(["a b"])), template="x"
        )
    )
    other = inspect(
        write_gguf("b.gguf", extra=lambda w: (w.add_tokenizer_pre("qwen2"), w.add_token_merges(["b c"])))
    )
    assert one.vocab_sha256 == other.vocab_sha256
    assert tokenizer_differences(one, one) == []
    assert tokenizer_differences(one, other) == [
        "tokenizer.ggml.merges: a list of 1 and a list of 1",
        "tokenizer.ggml.pre: 'default' and 'qwen2'",
    ]
