"""Building: what is made, what is counted, what is reused, what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import Selection
from pytest_ngram.errors import CorpusError, TableError
from pytest_ngram.record import Table
from pytest_ngram.table import Ids
from pytest_ngram.table.build import (
    BuiltTable,
    Progress,
    TableParams,
    cache_key,
    manifest_path,
    table_record,
)
from pytest_ngram.table.format import decode

Build = Callable[..., BuiltTable]
InCache = Callable[[], set[str]]
WriteCorpus = Callable[[str, list[str]], Path]
MOMENT = datetime(2026, 1, 31, tzinfo=UTC)


class Bytes:
    """A tokenizer of bytes that remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        self.texts += texts
        return [np.array(list(text.encode()), np.int32) for text in texts]


def test_a_table_and_its_manifest_agree(build: Build, tmp_path: Path, texts: list[str]) -> None:
    """The manifest says what was counted, what was written, and the hashes of both."""
    tokenizer, seen = Bytes(), list[Progress]()
    built = build(tokenize=tokenizer, on_progress=seen.append)
    data, manifest = built.path.read_bytes(), built.manifest
    assert built.how == "built"
    assert tokenizer.texts == texts, "each message alone, once, in order"
    assert seen == [Progress(of_messages=4, of_bytes=18, messages=4, size_bytes=18, tokens=18)]
    # abc 4, bca 2, cab 2 stay; abd and bcd were seen once.
    counts = decode(data)
    assert bytes(counts.third.tolist()) == b"cab"
    assert counts.count.tolist() == [4, 2, 2]
    assert (manifest.keys, manifest.pairs, manifest.size_bytes) == (3, 3, len(data))
    assert (manifest.keys_before, manifest.pairs_before) == (3, 5)
    assert (manifest.messages, manifest.tokens) == (4, 18)
    assert manifest.sha256 == hashlib.sha256(data).hexdigest()
    (source,) = manifest.sources
    assert source.sha256 == hashlib.sha256((tmp_path / "chat.jsonl").read_bytes()).hexdigest()
    assert source.name == "chat.jsonl", "no folder of the host in the manifest"
    assert json.loads(manifest_path(built.path).read_text())["params"]["top_k"] == 4
    assert table_record(manifest) == Table(manifest.sha256, 3, 3, len(data))


def test_keys_that_draft_only_because_of_pruning_are_counted(build: Build, write_corpus: WriteCorpus) -> None:
    """5 of 11 do not draft; 5 of 5, after the tail is pruned, do: the manifest says so."""
    corpus = write_corpus("tail.jsonl", ["abc"] * 5 + ["abd", "abe", "abf", "abg", "abh", "abi"])
    manifest = build(paths=(corpus,)).manifest
    assert (manifest.drafting_keys, manifest.lifted_keys) == (1, 1)
    manifest = build(paths=(corpus,), params=TableParams(min_count=1, top_k=9)).manifest
    assert (manifest.drafting_keys, manifest.lifted_keys) == (0, 0)
    with pytest.raises(TableError, match="no pair"):
        build(paths=(corpus,), params=TableParams(min_share=0.5))


def test_the_cap_is_in_the_manifest_when_it_bites(build: Build) -> None:
    """Counts above the cap are scaled down and the keys are counted."""
    built = build(params=TableParams(count_cap=3))
    assert built.manifest.capped_keys == 1
    assert decode(built.path.read_bytes()).count.tolist() == [3, 2, 2]


def test_left_out_lines_are_in_the_manifest(
    build: Build, write_corpus: WriteCorpus, texts: list[str]
) -> None:
    """What was counted and not used stays on record."""
    corpus = write_corpus("bad.jsonl", [*texts, ""])
    with corpus.open("a") as file:
        file.write("{\n\n[]\n")
    with pytest.raises(CorpusError, match="first line 6"):
        build(paths=(corpus,))
    manifest = build(paths=(corpus,), on_bad="count").manifest
    assert manifest.rejected == {"not JSON": 1, "not an object": 1}
    assert manifest.sources[0].filtered == {"empty": 1, "blank": 1}
    assert manifest.balance == (
        "8 rows = 4 used + 2 filtered (1 blank, 1 empty) + 2 rejected (1 not JSON, 1 not an object)"
    )


def test_the_same_table_is_built_once(build: Build) -> None:
    """The second time no message is tokenized."""
    first = build()
    tokenizer = Bytes()
    again = build(tokenize=tokenizer)
    assert (again.how, again.path, again.manifest) == ("reused", first.path, first.manifest)
    assert tokenizer.texts == []


def test_whatever_the_bytes_depend_on_is_in_the_key() -> None:
    """Another vocabulary, corpus, kind, choice or parameter is another table; another order is the same."""
    params = [
        TableParams(),
        TableParams(top_k=5),
        TableParams(min_count=3),
        TableParams(min_share=0.5),
        TableParams(min_total=3),
        TableParams(min_top_share=0.5),
        TableParams(count_cap=9),
    ]
    chosen = [
        Selection(roles=("user",)),
        Selection(sessions=("a",)),
        Selection(since=MOMENT),
        Selection(until=MOMENT),
        Selection(min_chars=2),
        Selection(max_mb=4),
        Selection(max_mb=4, seed=2),
    ]
    others = [
        cache_key(None, ["c"], "jsonl", Selection(), params[0]),
        cache_key("w", ["c"], "jsonl", Selection(), params[0]),
        cache_key("v", ["d"], "jsonl", Selection(), params[0]),
        cache_key("v", ["c", "d"], "jsonl", Selection(), params[0]),
        cache_key("v", ["c"], "text", Selection(), params[0]),
    ]
    keys = {*others, *(cache_key("v", ["c"], "jsonl", Selection(), p) for p in params)}
    keys |= {cache_key("v", ["c"], "jsonl", each, params[0]) for each in chosen}
    assert len(keys) == len(params) + len(chosen) + len(others)
    assert cache_key("v", ["d", "c"], "jsonl", Selection(), params[0]) == others[3]


@pytest.mark.parametrize("spoil", ["table", "manifest", "no table", "other version"])
def test_a_spoilt_cache_is_built_again(build: Build, spoil: str) -> None:
    """A cached table that is not what its manifest says is replaced, and the caller hears of it."""
    first = build()
    data, beside = first.path.read_bytes(), manifest_path(first.path)
    if spoil == "table":
        first.path.write_bytes(data[:-4] + b"\1\0\0\0")
    elif spoil == "manifest":
        beside.write_text("{")
    elif spoil == "no table":
        first.path.unlink()
    else:
        beside.write_text(beside.read_text().replace('"version": 2', '"version": 99'))
    again = build()
    assert (again.how, again.manifest) == ("repaired", first.manifest)
    assert again.path.read_bytes() == data
    assert build().how == "reused"


@pytest.mark.parametrize("ids", [[1, 2, 256], [-1, 2, 3]])
def test_ids_outside_the_vocabulary_are_refused(build: Build, ids: list[int]) -> None:
    """The tokenizer of another model is noticed at its first message."""
    with pytest.raises(TableError, match="in a vocabulary of 256") as caught:
        build(tokenize=lambda texts: [np.array(ids, np.int32) for _text in texts])
    assert "line 1" in caught.value.checked[0]


def test_a_vocabulary_that_cannot_be_counted_is_refused(build: Build, in_cache: InCache) -> None:
    """Three ids are one number of 63 bits: before anything is tokenized, not at the first large id."""
    tokenizer = Bytes()
    with pytest.raises(TableError, match="2097153 tokens, too many") as caught:
        build(n_vocab=2**21 + 1, tokenize=tokenizer)
    assert "2097152" in caught.value.checked[0]
    assert (tokenizer.texts, in_cache()) == ([], set())
    assert build(n_vocab=2**21).how == "built"


def test_a_corpus_too_small_for_its_parameters_is_an_error(build: Build, in_cache: InCache) -> None:
    """An empty table, which llama.cpp would load silently, is never written."""
    with pytest.raises(TableError, match="no pair") as caught:
        build(params=TableParams(min_count=50))
    assert "4 messages, 18 tokens, 3 keys, 5 pairs" in caught.value.checked
    assert in_cache() == set()


@pytest.mark.parametrize(
    "change",
    [
        {"top_k": 0},
        {"min_count": 0},
        {"min_share": 1.5},
        {"min_share": float("nan")},
        {"min_total": 0},
        {"min_top_share": -0.1},
        {"count_cap": 2**31},
    ],
    ids=str,
)
def test_senseless_parameters_are_refused(change: dict[str, object]) -> None:
    """The error names the parameter, its value and the range."""
    with pytest.raises(TableError) as caught:
        TableParams(**change)  # type: ignore[arg-type]
    assert next(iter(change)) in caught.value.checked[0]
    assert "allowed" in caught.value.checked[0]
