"""Whether two model files mean the same texts by the same ids, and cut a text alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from gguf import Keys

from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.gguf_header import Array, Scalar, read_header
from pytest_ngram.models.gguf_layers import Values

_TOKENIZER = "tokenizer.ggml."


@dataclass(frozen=True, slots=True)
class Difference:
    """The first id that two vocabularies do not share: the UTF-8 bytes of its text in each.

    None stands for a list that has ended before this id.
    """

    at: int
    one: bytes | None
    other: bytes | None


def first_difference(one: ModelFacts, other: ModelFacts, first: int = 0) -> Difference | None:
    """Return where two models' lists of tokens part, None where they are equal.

    Of the lists `a b c` and `a b d e` it is id 2, `c` and `d`; of `a b` and `a b c` id 2, nothing and `c`.

    Args:
        one, other: the models.
        first: the id to begin with.

    Raises:
        ModelError: a file cannot be read any more.
    """
    if one.vocab_sha256 == other.vocab_sha256:
        return None
    mine, theirs = (Values(facts.path, read_header(facts.path)).tokens().texts() for facts in (one, other))
    for at in range(first, max(len(mine), len(theirs))):
        a, b = (texts[at] if at < len(texts) else None for texts in (mine, theirs))
        if a != b:
            return Difference(at, a, b)
    return None


def token_lists_differ_at(one: ModelFacts, other: ModelFacts, first: int = 0) -> int | None:
    """Return the first id that stands for different texts in two models, None where there is none.

    Where one list only goes on after the other's end they do not differ. Arguments and errors are those of
    `first_difference`.
    """
    found = first_difference(one, other, first)
    return None if found is None or found.one is None or found.other is None else found.at


def tokenizer_differences(one: ModelFacts, other: ModelFacts) -> list[str]:
    """Say what else of the tokenizer two files state otherwise, a line each.

    With equal ids a table fits both, but a text may be cut into other tokens: with other merges, or another
    way to split it into words first.

    Raises:
        ModelError: a file cannot be read any more.
    """
    mine, theirs = (read_header(facts.path).values for facts in (one, other))
    keys = sorted(key for key in mine.keys() | theirs.keys() if key.startswith(_TOKENIZER))
    return [
        f"{key}: {_shown(mine.get(key))} and {_shown(theirs.get(key))}"
        for key in keys
        if key != Keys.Tokenizer.LIST and mine.get(key) != theirs.get(key)
    ]


def tokenizer_sha256(facts: ModelFacts) -> str:
    """Return a hash of all that the file states of its tokenizer, but for its tokens and the chat template.

    Raises:
        ModelError: the file cannot be read any more.
    """
    values = read_header(facts.path).values
    apart = (Keys.Tokenizer.LIST, Keys.Tokenizer.CHAT_TEMPLATE)
    digest = hashlib.sha256()
    for key in sorted(key for key in values if key.startswith(_TOKENIZER) and key not in apart):
        value = values[key]
        digest.update(f"{key}\0{value.kind if isinstance(value, Array) else repr(value)}\0".encode())
        digest.update(value.raw if isinstance(value, Array) else b"")
    return digest.hexdigest()


def _shown(value: Scalar | Array | None) -> str:
    if isinstance(value, Array):
        return f"a list of {value.count}"
    return "not stated" if value is None else repr(value)
