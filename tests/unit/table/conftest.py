"""A corpus of four messages, a tokenizer of bytes, and a cache to build into."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.table.build import BuiltTable, build_table

WriteCorpus = Callable[[str, list[str]], Path]
Build = Callable[..., BuiltTable]


@pytest.fixture
def texts() -> list[str]:
    """In bytes: abc 4 times, bca and cab twice, abd and bcd once; 18 tokens."""
    return ["abcabcabd", "abc", "abcd", "xy"]


@pytest.fixture
def write_corpus(tmp_path: Path) -> WriteCorpus:
    def write(name: str, texts: list[str]) -> Path:
        rows = [{"v": 1, "session": "s", "seq": i, "role": "user", "content": t} for i, t in enumerate(texts)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "cache"


@pytest.fixture
def in_cache(cache: Path) -> Callable[[], set[str]]:
    """The suffixes of what is in the cache, the lock apart."""
    return lambda: {path.suffix for path in cache.iterdir()} - {".lock"}


@pytest.fixture
def build(write_corpus: WriteCorpus, texts: list[str], cache: Path) -> Build:
    """`build_table` with arguments that work, any of which a test may change."""
    corpus = write_corpus("chat.jsonl", texts)

    def run(**changes: object) -> BuiltTable:
        arguments: dict[str, object] = {
            "tokenize": lambda text: list(text.encode()),
            "vocab_sha256": "a" * 64,
            "n_vocab": 256,
            "cache_dir": cache,
            **changes,
        }
        return build_table(arguments.pop("corpus_path", corpus), **arguments)  # type: ignore[arg-type]

    return run
