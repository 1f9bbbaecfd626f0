"""The manifest: what it says of several corpora, and manifests of the first version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pytest_ngram.corpus import Selection, parse_time
from pytest_ngram.errors import TableError
from pytest_ngram.table.build import BuiltTable, TableParams, load_table, manifest_path
from pytest_ngram.table.build.manifest import decode_manifest, encode_manifest

Build = Callable[..., BuiltTable]
WriteCorpus = Callable[[str, list[str]], Path]

# As the first version wrote it: one corpus, and of the filters roles alone.
OLD = {
    "version": 1, "vocab_sha256": "a" * 64, "n_vocab": 256, "corpus_name": "chat.jsonl",
    "corpus_sha256": "c" * 64,
    "params": {
        "top_k": 4, "min_count": 2, "min_share": 0.0, "min_total": 1, "min_top_share": 0.0,
        "roles": ["assistant"], "count_cap": 81,
    },
    "messages": 4, "tokens": 18, "empty": 1, "blank": 0, "other_roles": 2, "skipped": {"not JSON": 3},
    "keys_before": 3, "pairs_before": 5, "keys": 3, "pairs": 3, "drafting_keys": 3, "lifted_keys": 0,
    "capped_keys": 0, "sha256": "b" * 64, "size_bytes": 84,
}  # fmt: skip


def test_what_came_from_where_is_told(build: Build, write_corpus: WriteCorpus, texts: list[str]) -> None:
    """Each file with its rows, the filters with their seed; and it is read back as it was written."""
    one, two = write_corpus("one.jsonl", texts), write_corpus("two.jsonl", ["abcabc", "x", ""])
    chosen = Selection(min_chars=2, since=parse_time("2020-01-01", "since"), max_mb=1, seed=7)
    for path in (one, two):
        rows = [json.loads(line) | {"ts": "2026-01-01", "session": path.stem} for line in path.open()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = build(paths=(one, two), selection=chosen)
    kept = decode_manifest(manifest_path(built.path).read_bytes(), "x.json")
    assert kept == built.manifest
    assert [(s.name, s.rows, s.used, s.filtered) for s in kept.sources] == [
        ("one.jsonl", 4, 4, {}),
        ("two.jsonl", 3, 1, {"too short": 1, "empty": 1}),
    ]
    assert kept.selection == chosen
    assert kept.balance == "7 rows = 5 used + 2 filtered (1 empty, 1 too short) + 0 rejected"


def test_the_order_of_files_is_no_other_table(
    build: Build, write_corpus: WriteCorpus, texts: list[str]
) -> None:
    """The other way round it is the cached one."""
    one, two = write_corpus("one.jsonl", texts), write_corpus("two.jsonl", ["abcabc"])
    first = build(paths=(one, two))
    assert (build(paths=(two, one)).how, build(paths=(two, one)).path) == ("reused", first.path)


def test_a_manifest_of_the_first_version_is_read() -> None:
    """In the words of today, with the rows that it counted; what it did not say is null."""
    manifest = decode_manifest(json.dumps(OLD).encode(), "x.json")
    (source,) = manifest.sources
    assert (source.name, source.sha256, source.size_bytes) == ("chat.jsonl", "c" * 64, None)
    assert manifest.balance == (
        "10 rows = 4 used + 3 filtered (2 another role, 1 empty) + 3 rejected (3 not JSON)"
    )
    assert manifest.selection == Selection(roles=("assistant",))
    assert (manifest.params, manifest.messages, manifest.tokens) == (TableParams(), 4, 18)
    assert decode_manifest(encode_manifest(manifest), "x.json") == manifest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, "this pytest-ngram reads 1 and 2"),
        ({"version": 0}, "this pytest-ngram reads 1 and 2"),
        ({"skipped": 3}, "skipped"),
        ({"new": 1}, "new"),
        ({"params": {"top_k": 0}}, "top_k is 0"),
        ({"params": {"top_k": 4, "roles": []}}, "roles is an empty list"),
        ({"version": "1"}, "version"),
    ],
    ids=str,
)
def test_what_is_no_manifest_is_told(change: dict[str, object], said: str) -> None:
    """The field, or the version and what can be read."""
    with pytest.raises(TableError) as caught:
        decode_manifest(json.dumps(OLD | change).encode(), "x.json")
    assert said in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'"version"'], ids=repr)
def test_other_files_are_no_manifests(data: bytes) -> None:
    """Whatever lies beside a table under that name."""
    with pytest.raises(TableError, match="is no manifest"):
        decode_manifest(data, "x.json")


def test_an_unknown_vocabulary_is_null_and_told(build: Build) -> None:
    """A table made through a server elsewhere loads, with a note that it could not be compared."""
    built = build()
    manifest = msgspec.structs.replace(built.manifest, vocab_sha256=None)
    manifest_path(built.path).write_bytes(encode_manifest(manifest))
    loaded = load_table(built.path, "f" * 64, 256)
    assert "vocabulary" in loaded.notes[0]
