"""What of prompts is in a table's corpus: looked for in what it is made of, kept, and never as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import Format, Selection
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


@pytest.mark.parametrize(
    "selection",
    [Selection(roles=("assistant",)), Selection(min_chars=len(SECRET) + 1), Selection(max_mb=0.000_033)],
    ids=["role", "length", "sample"],
)
def test_all_that_was_said_counts(build: Build, tmp_path: Path, selection: Selection) -> None:
    """A question whose answer alone is in the table is found, whatever kept it out of the table."""
    answer = "that is a message which is short"
    rows = [("user", SECRET), ("assistant", answer if selection.max_mb is not None else answer * 2)]
    corpus = tmp_path / "asked.jsonl"
    corpus.write_text(
        "".join(
            json.dumps({"v": 1, "session": "s", "seq": seq, "role": role, "content": text}) + "\n"
            for seq, (role, text) in enumerate(rows)
        )
    )
    wanted = Wanted(paths=(corpus,), selection=selection)
    assert SECRET not in [message.content for message in wanted.read().messages]
    table = build(paths=wanted.paths, selection=selection, params=TableParams(min_count=1)).path
    found = leakage_of({"a": (PROMPT,)}, wanted, Tokenizer(as_bytes, "a" * 64, 256), table)
    assert found["a"].run == len(SECRET)
    assert found["a"].at == CorpusPlace(corpus="asked.jsonl", session="s", number=0, line=1)


def test_what_a_narrower_look_found_is_not_reused(table: Path, corpus: Path) -> None:
    """Files of the version that looked at the table's own messages only are made anew."""
    found = look(table, corpus, as_bytes, a=PROMPT)
    kept = json.loads(leakage_path(table).read_text())
    (name,) = kept["prompts"]
    none = {"run": 0, "share": 0.0, "of_one_message": 0.0, "exact": 0, "near": 0, "at": None}
    leakage_path(table).write_text(json.dumps({"version": 1, "prompts": {name: none}}))
    assert look(table, corpus, as_bytes, a=PROMPT) == found


@pytest.mark.parametrize("kind", ["text", "paragraphs"])
def test_plain_text_is_read_as_the_table_reads_it(build: Build, tmp_path: Path, kind: Format) -> None:
    """A corpus of plain text is looked into too, as one message or as paragraphs."""
    path = tmp_path / "plain.txt"
    path.write_text(f"{SECRET}\n\nzz")
    wanted = Wanted(paths=(path,), kind=kind)
    table = build(paths=(path,), kind=kind, params=TableParams(min_count=1)).path
    found = leakage_of({"a": (f"{SECRET}\n\nzz",)}, wanted, Tokenizer(as_bytes, "a" * 64, 256), table)
    assert found["a"].run == len(SECRET) + (4 if kind == "text" else 0)


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
