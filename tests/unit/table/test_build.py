"""Building: what is made, what is counted, what is reused, what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.errors import CorpusError, TableError
from pytest_ngram.record import Table
from pytest_ngram.table.build import BuiltTable, TableParams, cache_key, manifest_path, table_record
from pytest_ngram.table.format import decode

Build = Callable[..., BuiltTable]
InCache = Callable[[], set[str]]
WriteCorpus = Callable[[str, list[str]], Path]


class Bytes:
    """A tokenizer of bytes that remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> list[int]:
        self.texts.append(text)
        return list(text.encode())


def test_a_table_and_its_manifest_agree(build: Build, tmp_path: Path, texts: list[str]) -> None:
    """The manifest says what was counted, what was written, and the hashes of both."""
    tokenizer, seen = Bytes(), list[tuple[int, int]]()
    built = build(tokenize=tokenizer, on_progress=lambda done, total: seen.append((done, total)))
    data, manifest = built.path.read_bytes(), built.manifest
    assert built.how == "built"
    assert tokenizer.texts == texts, "each message alone, once, in order"
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    # abc 4, bca 2, cab 2 stay; abd and bcd were seen once.
    counts = decode(data)
    assert bytes(counts.third.tolist()) == b"cab"
    assert counts.count.tolist() == [4, 2, 2]
    assert (manifest.keys, manifest.pairs, manifest.size_bytes) == (3, 3, len(data))
    assert (manifest.keys_before, manifest.pairs_before) == (3, 5)
    assert (manifest.messages, manifest.tokens) == (4, 18)
    assert manifest.sha256 == hashlib.sha256(data).hexdigest()
    assert manifest.corpus_sha256 == hashlib.sha256((tmp_path / "chat.jsonl").read_bytes()).hexdigest()
    assert manifest.corpus_name == "chat.jsonl", "no folder of the host in the manifest"
    assert json.loads(manifest_path(built.path).read_text())["params"]["top_k"] == 4
    assert table_record(manifest) == Table(manifest.sha256, 3, 3, len(data))


def test_keys_that_draft_only_because_of_pruning_are_counted(build: Build, write_corpus: WriteCorpus) -> None:
    """5 of 11 do not draft; 5 of 5, after the tail is pruned, do: the manifest says so."""
    corpus = write_corpus("tail.jsonl", ["abc"] * 5 + ["abd", "abe", "abf", "abg", "abh", "abi"])
    manifest = build(corpus_path=corpus).manifest
    assert (manifest.drafting_keys, manifest.lifted_keys) == (1, 1)
    manifest = build(corpus_path=corpus, params=TableParams(min_count=1, top_k=9)).manifest
    assert (manifest.drafting_keys, manifest.lifted_keys) == (0, 0)
    with pytest.raises(TableError, match="no pair"):
        build(corpus_path=corpus, params=TableParams(min_share=0.5))


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
        build(corpus_path=corpus)
    manifest = build(corpus_path=corpus, on_bad="count").manifest
    assert manifest.skipped == {"not JSON": 1, "not an object": 1}
    assert (manifest.empty, manifest.blank, manifest.other_roles) == (1, 1, 0)


def test_the_same_table_is_built_once(build: Build) -> None:
    """The second time no message is tokenized."""
    first = build()
    tokenizer = Bytes()
    again = build(tokenize=tokenizer)
    assert (again.how, again.path, again.manifest) == ("reused", first.path, first.manifest)
    assert tokenizer.texts == []


def test_whatever_the_bytes_depend_on_is_in_the_key() -> None:
    """Another vocabulary, corpus or parameter is another table."""
    params = [
        TableParams(),
        TableParams(top_k=5),
        TableParams(min_count=3),
        TableParams(min_share=0.5),
        TableParams(min_total=3),
        TableParams(min_top_share=0.5),
        TableParams(roles=("user",)),
        TableParams(count_cap=9),
    ]
    keys = {cache_key("v", "c", p) for p in params}
    keys |= {cache_key("w", "c", params[0]), cache_key("v", "d", params[0])}
    assert len(keys) == len(params) + 2


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
        beside.write_text(beside.read_text().replace('"version": 1', '"version": 99'))
    again = build()
    assert (again.how, again.manifest) == ("repaired", first.manifest)
    assert again.path.read_bytes() == data
    assert build().how == "reused"


@pytest.mark.parametrize("ids", [[1, 2, 256], [-1, 2, 3]])
def test_ids_outside_the_vocabulary_are_refused(build: Build, ids: list[int]) -> None:
    """The tokenizer of another model is noticed at its first message."""
    with pytest.raises(TableError, match="in a vocabulary of 256") as caught:
        build(tokenize=lambda _text: ids)
    assert "line 1" in caught.value.checked[0]


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
        {"roles": ()},
    ],
    ids=str,
)
def test_senseless_parameters_are_refused(change: dict[str, object]) -> None:
    """The error names the parameter, its value and the range."""
    with pytest.raises(TableError) as caught:
        TableParams(**change)  # type: ignore[arg-type]
    assert next(iter(change)) in caught.value.checked[0]
    assert "allowed" in caught.value.checked[0]
