"""Known tokens: kept by text and vocabulary, never trusted blindly, never in the way."""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import Message
from pytest_ngram.corpus.rows import digest_of
from pytest_ngram.errors import TableError
from pytest_ngram.table import Ids
from pytest_ngram.table.build import BuiltTable, Progress, tokens
from pytest_ngram.table.build.token_cache import TokenCache
from pytest_ngram.table.build.tokens import Tokens

Build = Callable[..., BuiltTable]
WriteCorpus = Callable[[str, list[str]], Path]


class Asked:
    """A tokenizer of bytes that remembers each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        self.calls.append(list(texts))
        return [np.array(list(text.encode()), np.int32) for text in texts]


def message(text: str, line: int = 1) -> Message:
    return Message(line, "", "user", text, digest=digest_of(text.encode()), size_bytes=len(text.encode()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens" / "vocabulary.sqlite"


def test_only_new_messages_are_tokenized(
    build: Build, write_corpus: WriteCorpus, texts: list[str], path: Path
) -> None:
    """The next export costs its new messages, and gives the table that it would have given anyway."""
    first, second = Asked(), Asked()
    with TokenCache(path) as cache:
        build(tokenize=first, tokens=cache)
    grown = write_corpus("grown.jsonl", [*texts, "abcabc", "abcabc"])
    with TokenCache(path) as cache:
        built = build(paths=(grown,), tokenize=second, tokens=cache)
    assert (first.calls, second.calls) == ([texts], [["abcabc"]])
    data = built.path.read_bytes()
    built.path.unlink()
    assert build(paths=(grown,)).path.read_bytes() == data


def test_ids_come_back_as_they_went_in(path: Path) -> None:
    """Empty, largest, and more texts than one question of sqlite can hold."""
    ids = {digest_of(f"{i}".encode()): np.arange(i % 7, dtype=np.int32) for i in range(1200)}
    ids[digest_of(b"large")] = np.array([2**21 - 1, 0], np.int32)
    with TokenCache(path) as cache:
        cache.put(ids)
    with TokenCache(path) as cache:
        found = cache.get([*ids, digest_of(b"unknown")])
        assert cache.trouble is None
    assert found.keys() == ids.keys()
    assert all(np.array_equal(found[digest], each) for digest, each in ids.items())
    assert {each.dtype for each in found.values()} == {np.dtype(np.int32)}


def test_only_the_owner_may_read_it(path: Path) -> None:
    """Ids of private chats are private chats."""
    with TokenCache(path) as cache:
        cache.put({digest_of(b"a"): np.array([1], np.int32)})
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("damage", ["no database", "cut", "overwritten", "empty", "another table"])
def test_a_damaged_file_costs_time_and_nothing_else(
    build: Build, texts: list[str], path: Path, damage: str
) -> None:
    """The table is built as without it, and the next time the cache works again."""
    with TokenCache(path) as cache:
        cache.put({digest_of(f"{i}".encode()): np.arange(500, dtype=np.int32) for i in range(100)})
    data = path.read_bytes()
    spoilt = {
        "no database": b"this is no database" * 500,
        "cut": data[: len(data) // 2],
        "overwritten": data[:4096] + b"\xff" * (len(data) - 4096),
        "empty": b"",
    }
    if damage in spoilt:
        path.write_bytes(spoilt[damage])
    else:
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE tokens (something INTEGER)")
        other.close()
    asked = Asked()
    with TokenCache(path) as cache:
        assert build(tokenize=asked, tokens=cache).manifest.tokens == 18
        told = cache.trouble
    assert asked.calls == [texts]
    assert (told is None) == (damage == "empty")
    if damage == "another table":
        return
    with TokenCache(path) as cache:
        cache.put({digest_of(b"a"): np.array([1], np.int32)})
        assert list(cache.get([digest_of(b"a")])) == [digest_of(b"a")]


@pytest.mark.parametrize("change", ["a bit", "cut", "emptied", "text", "another text's"])
def test_a_row_that_was_changed_is_not_believed(
    build: Build, texts: list[str], path: Path, change: str
) -> None:
    """Sqlite has no checksums of rows: wrong ids would go into the table, and it would look well."""
    with TokenCache(path) as cache:
        first = build(tokens=cache)
    data = first.path.read_bytes()
    first.path.unlink()
    with sqlite3.connect(path) as other:
        rows = other.execute("SELECT digest, ids FROM tokens").fetchall()
        for i, (digest, ids) in enumerate(rows):
            changed = {
                "a bit": ids[:-4] + bytes([ids[-4] ^ 1]) + ids[-3:],
                "cut": ids[:-1],
                "emptied": b"",
                "text": "text",
                "another text's": rows[i - 1][1],
            }
            other.execute("UPDATE tokens SET ids = ? WHERE digest = ?", (changed[change], digest))
    other.close()
    asked = Asked()
    with TokenCache(path) as cache:
        assert build(tokenize=asked, tokens=cache).path.read_bytes() == data
        assert cache.trouble is not None
        assert "a row is not as it was written; the file was damaged and is removed" in cache.trouble
    assert asked.calls == [texts]


def test_a_place_that_cannot_be_used_is_told(build: Build, tmp_path: Path) -> None:
    """The build goes on, and it is said that nothing is kept."""
    (tmp_path / "file").touch()
    with TokenCache(tmp_path / "file" / "vocabulary.sqlite") as cache:
        assert build(tokens=cache).how == "built"
        assert cache.trouble is not None
        assert "tokens are not kept" in cache.trouble


def _fill(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    with TokenCache(path) as cache:
        for i in range(100):
            cache.put({digest_of(f"{i}".encode()): np.arange(5000, dtype=np.int32)})
        assert cache.trouble is not None
        assert cache.get([digest_of(b"0")]) == {}, "what is troubled is done without"


def test_a_write_that_fails_is_told_and_leaves_whole_rows(path: Path) -> None:
    """A real failing write, by a limit on the size of files: no row is half there afterwards."""
    process = multiprocessing.get_context("fork").Process(target=_fill, args=(path,))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    with TokenCache(path) as cache:
        found = cache.get([digest_of(f"{i}".encode()) for i in range(100)])
    assert all(np.array_equal(each, np.arange(5000)) for each in found.values())


def test_a_text_is_tokenized_once_however_often_it_is_said() -> None:
    """Greetings repeat; each message still counts."""
    asked = Asked()
    said = Tokens([message("hi"), message("ho"), message("hi")], asked, 256)
    assert [list(ids) for ids in said] == [[104, 105], [104, 111], [104, 105]]
    assert asked.calls == [["hi", "ho"]]
    assert said.progress == Progress(3, 6, messages=3, size_bytes=6, tokens=6, known=0)


def test_batches_have_a_size_and_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Ctrl-C loses one batch at most: what was made before is kept."""
    monkeypatch.setattr(tokens, "BATCH_BYTES", 10)
    seen: list[Progress] = []

    def stopped(texts: Sequence[str]) -> list[Ids]:
        if "fff" in texts:
            raise KeyboardInterrupt
        return Asked()(texts)

    messages = [message(letter * 3) for letter in "abcdefg"]
    with TokenCache(path) as cache, pytest.raises(KeyboardInterrupt):
        list(Tokens(messages, stopped, 256, cache=cache, on_progress=seen.append))
    assert [(done.messages, done.size_bytes) for done in seen] == [(4, 12)]
    asked = Asked()
    with TokenCache(path) as cache:
        again = Tokens(messages, asked, 256, cache=cache)
        assert len(list(again)) == 7
    assert (asked.calls, again.progress.known) == ([["eee", "fff", "ggg"]], 4)


def test_ids_that_are_no_tokens_are_not_kept(path: Path) -> None:
    """The tokenizer of another model is refused before the cache has learned from it."""
    with TokenCache(path) as cache:
        with pytest.raises(TableError, match="in a vocabulary of 100"):
            list(Tokens([message("az")], Asked(), 100, cache=cache))
        assert cache.get([digest_of(b"az")]) == {}
