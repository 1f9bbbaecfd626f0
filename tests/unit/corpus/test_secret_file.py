"""Files with secrets: read only where nobody else can, and never quoted."""

from __future__ import annotations

import os
from pathlib import Path

import pyrage
import pytest

from pytest_ngram.corpus.secret_file import read_identities, read_token
from pytest_ngram.errors import CorpusError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    return file


@pytest.mark.parametrize("data", ["abc.DEF-12=", "abc.DEF-12=\n", "abc.DEF-12=\r\n", " abc.DEF-12=\n\n"])
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_token_is_the_one_line(path: Path, data: str, mode: int) -> None:
    """However an editor ended it."""
    path.write_text(data)
    path.chmod(mode)
    assert read_token(path) == "abc.DEF-12="


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"s3cret two", b"s3cret\ntwo", "s3crét".encode(), b"s3cret\x00"]
)
def test_what_cannot_be_sent_is_no_token(path: Path, data: bytes) -> None:
    """A second word or line, or what no header can hold, is refused without being shown."""
    path.write_bytes(data)
    with pytest.raises(CorpusError, match="token") as caught:
        read_token(path)
    assert "s3cr" not in str(caught.value)


def test_a_file_of_somebody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a file can read it: it has to be the user's own."""
    path.write_text("abc")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(CorpusError, match="belongs to somebody else"):
        read_token(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, and nothing at all: each an error, and at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, mode=0o600)
    for path, what in (
        (tmp_path, "is no regular file"),
        (pipe, "is no regular file"),
        (tmp_path / "x", "cannot be read"),
    ):
        with pytest.raises(CorpusError, match=what):
            read_token(path)


def test_a_file_that_is_too_large(path: Path) -> None:
    """A corpus given by mistake is not read into memory."""
    path.write_bytes(b"x" * 70_000)
    with pytest.raises(CorpusError, match="larger than"):
        read_token(path)


def test_identities_as_age_keygen_writes_them(path: Path) -> None:
    """Comments, empty lines and several keys."""
    keys = [pyrage.x25519.Identity.generate() for _ in range(2)]
    path.write_text(f"# created: 2026-01-01\r\n# public key: age1x\r\n{keys[0]}\r\n\n  {keys[1]}")
    assert [str(key) for key in read_identities(path)] == list(map(str, keys))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "holds no identity"),
        (b"# only this\n", "holds no identity"),
        (b"# a\nAGE-SECRET-KEY-1QQS3CRET\n", "line 2 of the identity file is no age identity"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret\n", "line 1 of the identity file"),
        (b"AGE-PLUGIN-YUBIKEY-1S3CRET\n", "line 1 of the identity file"),
        (b"\xff\xfes3cret", "is no text"),
    ],
)
def test_what_is_no_identity(path: Path, data: bytes, what: str) -> None:
    """The line is told by its number, and not shown, not even as the cause of the error."""
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=what) as caught:
        read_identities(path)
    assert "s3cret" not in str(caught.value).lower()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
