"""One row of a corpus: what it must have, and what is wrong with one that cannot be used."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import msgspec

VERSION = 1
EXAMPLE = '{"v":1,"role":"assistant","content":"Hello"}'
FORMAT = f"one message a line, such as {EXAMPLE}; `v` and `content` are needed, other keys may be left out"
NO_ROLE = "(none)"
# A chat message is some kB; what is longer than this is a file that somebody pasted, or no JSONL at all.
ROW_LIMIT_BYTES = 32_000_000
TOO_LONG = f"longer than {ROW_LIMIT_BYTES // 1_000_000} MB"
NOT_UTF8 = "not UTF-8"
# The second is what msgspec before 0.23 raises for bytes that are not UTF-8.
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)
DIGEST_BYTES = 16


class Line(msgspec.Struct, gc=False):
    """What is read of a line; `session`, `seq` and `ts` may be anything."""

    v: Literal[1]
    content: str
    role: str | None = None
    session: Any = None
    seq: Any = None
    ts: Any = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """One usable message.

    Args:
        line: its first line in its file, from 1.
        session: empty where it has none.
        role: `(none)` where it has none.
        content: the text.
        seq: its number within the session, as written; None where it has none.
        file: the place of its file among those read, from 0.
        digest: 16 bytes (BLAKE2b) of the text's UTF-8.
        size_bytes: of the text in UTF-8.
    """

    line: int
    session: str
    role: str
    content: str
    seq: int | str | None = None
    file: int = 0
    digest: bytes = b""
    size_bytes: int = 0


def digest_of(content: bytes) -> bytes:
    """Return the 16 bytes by which a text is known: to find duplicates, to draw a sample, to keep tokens."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def why(text: bytes) -> str:
    """Name what is wrong with a line that did not decode; slow, and only for such lines."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return NOT_UTF8
    try:
        line = msgspec.json.decode(text)
    except (*UNDECODABLE, RecursionError):
        return "lone surrogate" if _has_lone_surrogate(decoded) else "not JSON"
    return _why_fields(line) if isinstance(line, dict) else "not an object"


def _has_lone_surrogate(text: str) -> bool:
    r"""Whether it is JSON but for half a character, such as `"\ud83d"`: a text that was cut in an emoji."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return False
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _why_fields(line: dict[str, Any]) -> str:
    if "v" not in line:
        return "no v"
    if line["v"] != VERSION or not isinstance(line["v"], int) or line["v"] is True:
        return "unknown v"
    if "content" not in line:
        return "no content"
    return "content is not text" if not isinstance(line["content"], str) else "role is not text"
