"""Tokens of messages that were tokenized before, in a sqlite file per vocabulary and engine.

A new export is mostly the old one: only its new messages cost a tokenizer. A row's key is the digest of its
text (`corpus.rows.digest_of`), so it does not matter from which file, session or role a text comes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.vocabulary import tokenizer_sha256
from pytest_ngram.table import Ids

# Raise it when the same text would be kept as other bytes.
_LAYOUT = 2
_ASKED_AT_ONCE = 500  # sqlite takes 999 parameters in its oldest builds
_BUSY_TIMEOUT_S = 30.0
_CHECKSUM_BYTES = 4
_INT32 = np.dtype("<i4")


def cache_name(facts: ModelFacts, engine: str) -> str:
    """Return the file's name: all that the tokens of a text depend on.

    Args:
        facts: of the model. Its merges and its way to split words count too: files with equal ids may cut
            a text into other tokens.
        engine: names the code that tokenizes (`measure.remembered.engine_key`).
    """
    made_from = f"{_LAYOUT}\0{facts.vocab_sha256}\0{tokenizer_sha256(facts)}\0{engine}"
    return f"{hashlib.sha256(made_from.encode()).hexdigest()[:32]}.sqlite"


def token_cache(cache_dir: Path, facts: ModelFacts, engine: str) -> TokenCache:
    """Open what is known of a model's tokens, in the user's cache folder. See `cache_name`."""
    return TokenCache(cache_dir / "tokens" / cache_name(facts, engine))


class TokenCache:
    """Token ids by the digest of their text. Whatever is wrong with it costs time, never the table.

    A file that cannot be used is done without, and `trouble` says why; one that is damaged is removed too.

    Args:
        path: the sqlite file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        self._connection: sqlite3.Connection | None = None
        with self._troubled():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _open(path)

    def __enter__(self) -> TokenCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def get(self, digests: Sequence[bytes]) -> dict[bytes, Ids]:
        """Return the ids of those texts that are known."""
        found: dict[bytes, Ids] = {}
        with self._troubled():
            for at in range(0, len(digests), _ASKED_AT_ONCE):
                asked = digests[at : at + _ASKED_AT_ONCE]
                found |= {digest: _unsealed(digest, sealed) for digest, sealed in self._select(asked)}
        return found

    def put(self, ids: Mapping[bytes, Ids]) -> None:
        """Keep ids of texts; all of them or, where the process ends in between, none."""
        rows = [(digest, _sealed(digest, each)) for digest, each in ids.items()]
        with self._troubled():
            if self._connection is not None:
                with self._connection:
                    self._connection.executemany("INSERT OR REPLACE INTO tokens VALUES (?, ?)", rows)

    def _select(self, digests: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        if self._connection is None:
            return []
        marks = ",".join("?" * len(digests))
        query = f"SELECT digest, ids FROM tokens WHERE digest IN ({marks})"  # noqa: S608 - question marks only
        return self._connection.execute(query, digests).fetchall()

    @contextlib.contextmanager
    def _troubled(self) -> Iterator[None]:
        """From the first error on do without the file; one with damaged pages is taken away."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self.trouble = f"tokens are not kept in {self.path}: {error}"
            self.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                self.trouble += "; the file was damaged and is removed"
                with contextlib.suppress(OSError):
                    self._drop()

    def _drop(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _sealed(digest: bytes, ids: Ids) -> bytes:
    """Ids behind a checksum of them and their text: sqlite would hand out bytes that the disk has changed."""
    data = ids.astype(_INT32, copy=False).tobytes()
    return _checksum(digest, data) + data


def _unsealed(digest: bytes, sealed: object) -> Ids:
    """Raises `sqlite3.DatabaseError` for a row that is not as it was written."""
    if not isinstance(sealed, bytes) or sealed[:_CHECKSUM_BYTES] != _checksum(
        digest, sealed[_CHECKSUM_BYTES:]
    ):
        raise sqlite3.DatabaseError("a row is not as it was written")
    return np.frombuffer(sealed, _INT32, offset=_CHECKSUM_BYTES)


def _checksum(digest: bytes, data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(digest)).to_bytes(_CHECKSUM_BYTES)


def _open(path: Path) -> sqlite3.Connection:
    # ids of private chats are private chats; sqlite gives its other files the same mode
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)
    try:
        # with a write-ahead log a power cut loses the newest rows at most, and readers need not wait
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE IF NOT EXISTS tokens (digest BLOB PRIMARY KEY, ids BLOB NOT NULL)")
    except BaseException:
        connection.close()
        raise
    return connection
