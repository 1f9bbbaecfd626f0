"""A corpus of four messages, a tokenizer of bytes, and a cache to build into."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.table import Ids
from pytest_ngram.table.build import BuiltTable, Tokenizer, Wanted, build_table
from pytest_ngram.table.build.tokenizing import TokenizeMany

WriteCorpus = Callable[[str, list[str]], Path]
Build = Callable[..., BuiltTable]


def as_bytes(texts: Sequence[str]) -> list[Ids]:
    """A tokenizer whose ids are the bytes of the text."""
    return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]


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
    """`build_table` with arguments that work, any of which a test may change.

    `paths` and what else `Wanted` has, `tokenize`, `tokens` (a token cache), and those of `build_table`.
    """
    corpus = write_corpus("chat.jsonl", texts)

    def run(
        *, tokenize: TokenizeMany = as_bytes, n_vocab: int = 256, tokens: object = None, **changes: object
    ) -> BuiltTable:
        of_wanted = {name: changes.pop(name) for name in Wanted.__slots__ if name in changes}
        wanted = Wanted(**{"paths": (corpus,), **of_wanted})  # type: ignore[arg-type]
        tokenizer = Tokenizer(tokenize, "a" * 64, n_vocab, tokens)  # type: ignore[arg-type]
        return build_table(wanted, tokenizer, **{"cache_dir": cache, **changes})  # type: ignore[arg-type]

    return run
