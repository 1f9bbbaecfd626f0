"""What of prompts is in a table's corpus: looked for in what it is made of, kept, and never as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import Selection
from pytest_ngram.errors import TableError
from pytest_ngram.record import CorpusPlace, Leakage
from pytest_ngram.table import Ids
from pytest_ngram.table.build import BuiltTable, TableParams, Tokenizer, Wanted
from pytest_ngram.table.build.leaks import leakage_of, leakage_path

Build = Callable[..., BuiltTable]
WriteCorpus = Callable[[str, list[str]], Path]

SECRET = "the combination of the safe is 1234"
PROMPT = f"what? {SECRET}."


def as_bytes(texts: Sequence[str]) -> list[Ids]:
    return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]


class Counting:
    """A tokenizer of bytes that remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        self.texts += texts
        return as_bytes(texts)


@pytest.fixture
def corpus(write_corpus: WriteCorpus) -> Path:
    return write_corpus("safe.jsonl", ["a message of no importance", SECRET, "zz"])


@pytest.fixture
def table(build: Build, corpus: Path) -> Path:
    return build(paths=(corpus,)).path


def look(
    table: Path, corpus: Path, tokenize: Callable[[Sequence[str]], list[Ids]], **prompts: str
) -> dict[str, Leakage]:
    wanted = Wanted(paths=(corpus,))
    turns = {name: (text,) for name, text in prompts.items()}
    return leakage_of(turns, wanted, Tokenizer(tokenize, "a" * 64, 256), table)


def test_it_is_told_with_the_messages_place(table: Path, corpus: Path) -> None:
    """File, session, number and line of the message that has the longest run."""
    found = look(table, corpus, as_bytes, safe=PROMPT, short="zz")
    grams = len(PROMPT) - 7
    assert found["safe"].run == len(SECRET)
    assert found["safe"].share == pytest.approx((len(SECRET) - 7) / grams)
    assert found["safe"].at == CorpusPlace(corpus="safe.jsonl", session="s", number=1, line=2)
    at = CorpusPlace(corpus="safe.jsonl", session="s", number=2, line=3)
    assert found["short"] == Leakage(run=2, share=None, of_one_message=None, exact=None, near=None, at=at)


def test_what_was_looked_for_is_kept(table: Path, corpus: Path) -> None:
    """A prompt that was looked for costs no tokenizer; one that is new or was changed does."""
    first, again, more = Counting(), Counting(), Counting()
    found = look(table, corpus, first, a=PROMPT)
    assert look(table, corpus, again, renamed=PROMPT) == {"renamed": found["a"]}
    assert (len(first.texts), again.texts) == (4, [])
    look(table, corpus, more, a=PROMPT, b="another")
    assert more.texts[-1:] == ["another"]
    assert PROMPT not in more.texts


def test_no_text_is_kept(table: Path, corpus: Path) -> None:
    """The file holds hashes, numbers and places."""
    look(table, corpus, as_bytes, a=PROMPT)
    kept = leakage_path(table).read_text()
    assert "combination" not in kept
    assert json.loads(kept)["prompts"].keys().isdisjoint({"a"})


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\xff\xfe", b'{"version": 99, "prompts": {}}', b'{"prompts": 3}']
)
def test_a_damaged_file_costs_time_only(table: Path, corpus: Path, damage: bytes) -> None:
    """It is made anew."""
    found = look(table, corpus, as_bytes, a=PROMPT)
    leakage_path(table).write_bytes(damage)
    assert look(table, corpus, as_bytes, a=PROMPT) == found
    assert look(table, corpus, Counting(), a=PROMPT) == found


def test_only_what_the_table_is_made_of_counts(build: Build, corpus: Path) -> None:
    """A message that the table's choice leaves out cannot leak through it."""
    wanted = Wanted(paths=(corpus,), selection=Selection(roles=("user",), min_chars=3, max_mb=0.000_03))
    table = build(paths=wanted.paths, selection=wanted.selection, params=TableParams(min_count=1)).path
    found = leakage_of({"a": (PROMPT,)}, wanted, Tokenizer(as_bytes, "a" * 64, 256), table)
    (used,) = (message.content for message in wanted.read().messages)
    assert used != SECRET
    assert found["a"].run is not None
    assert found["a"].run < 8


def test_turns_stand_alone(table: Path, corpus: Path) -> None:
    """A run does not go over the end of a turn, though both halves are of one message."""
    tokenizer = Tokenizer(as_bytes, "a" * 64, 256)
    found = leakage_of({"a": (SECRET[:20], SECRET[20:])}, Wanted(paths=(corpus,)), tokenizer, table)
    assert found["a"].run == 20


def test_a_tokenizer_of_another_model_is_refused(table: Path, corpus: Path) -> None:
    """Ids outside the vocabulary are an error here as they are when a table is built."""

    def wide(texts: Sequence[str]) -> list[Ids]:
        return [np.full(3, 300, dtype=np.int32) for _text in texts]

    with pytest.raises(TableError, match="the tokenizer gave ids 300 to 300"):
        look(table, corpus, wide, a=PROMPT)
