"""Reads a chat corpus: JSONL, plain or gzip, one message a line.

    {"v": 1, "session": "a", "seq": 0, "role": "user", "content": "Hello", "ts": "2026-01-01T00:00:00Z"}

`v` and `content` are needed; other keys may be missing, and unknown ones are allowed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import msgspec

from pytest_ngram.errors import CorpusError

OnBad = Literal["error", "count"]

VERSION = 1
_EXAMPLE = '{"v":1,"role":"assistant","content":"Hello"}'
FORMAT = f"one message a line, such as {_EXAMPLE}; `v` and `content` are needed, other keys may be left out"
FIRST_LINES = 5
NO_ROLE = "(none)"
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
# The second is what msgspec before 0.23 raises for bytes that are not UTF-8.
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)


class _Line(msgspec.Struct, gc=False):
    v: Literal[1]
    content: str
    role: str | None = None
    session: Any = None


_DECODER = msgspec.json.Decoder(_Line)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One usable message. `line` counts from 1; `role` is `(none)` and `session` empty where it has none."""

    line: int
    session: str
    role: str
    content: str


class Skipped(msgspec.Struct, frozen=True):
    """Lines left out for one reason: how many, and the numbers (from 1) of the first of them."""

    count: int
    first_lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """What was in a corpus. Every line is one of: used, skipped for a reason, of another role, empty, blank.

    Args:
        name: the file's name without its folder.
        sha256: of the uncompressed bytes, so that a corpus and its .gz are the same corpus.
        size_bytes: uncompressed.
        lines: all of them.
        messages: those used.
        per_role: messages used, by role.
        skipped: lines that cannot be used, by reason.
        other_roles: usable messages whose role was not asked for.
        empty: messages whose content is the empty text.
        blank: lines of white space.
    """

    name: str
    sha256: str
    size_bytes: int
    lines: int
    messages: int
    per_role: dict[str, int]
    skipped: dict[str, Skipped]
    other_roles: int
    empty: int
    blank: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The messages in the order of their lines, and the report on all lines."""

    messages: tuple[Message, ...]
    report: CorpusReport


@dataclass(slots=True)
class _Tally:
    """What is counted while reading."""

    roles: frozenset[str] | None
    digest: Any = field(default_factory=hashlib.sha256)
    size_bytes: int = 0
    lines: int = 0
    messages: list[Message] = field(default_factory=list)
    per_role: dict[str, int] = field(default_factory=dict)
    bad: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    other_roles: dict[str, int] = field(default_factory=dict)
    empty: int = 0
    blank: int = 0

    def take(self, raw: bytes) -> None:
        """Count one line, and keep its message if it is wanted."""
        self.digest.update(raw)
        self.size_bytes += len(raw)
        self.lines += 1
        text = raw.removeprefix(_BOM) if self.lines == 1 else raw
        try:
            line = _DECODER.decode(text)
        except _UNDECODABLE:
            self._take_unusable(text)
            return
        except RecursionError:
            self._skip("not JSON")
            return
        # A corpus has few roles and sessions: each is kept once.
        role = NO_ROLE if line.role is None else sys.intern(line.role)
        if self.roles is not None and role not in self.roles:
            self.other_roles[role] = self.other_roles.get(role, 0) + 1
        elif not line.content:
            self.empty += 1
        else:
            session = sys.intern("" if line.session is None else str(line.session))
            self.messages.append(Message(self.lines, session, role, line.content))
            self.per_role[role] = self.per_role.get(role, 0) + 1

    def _take_unusable(self, text: bytes) -> None:
        if text.isspace() or not text:
            self.blank += 1
        else:
            self._skip(_why(text))

    def _skip(self, reason: str) -> None:
        count, first = self.bad.get(reason, (0, []))
        if count < FIRST_LINES:
            first.append(self.lines)
        self.bad[reason] = (count + 1, first)

    def report(self, name: str) -> CorpusReport:
        """Close the books."""
        return CorpusReport(
            name=name,
            sha256=self.digest.hexdigest(),
            size_bytes=self.size_bytes,
            lines=self.lines,
            messages=len(self.messages),
            per_role=self.per_role,
            skipped={reason: Skipped(count, tuple(first)) for reason, (count, first) in self.bad.items()},
            other_roles=sum(self.other_roles.values()),
            empty=self.empty,
            blank=self.blank,
        )


def read_corpus(path: Path, roles: frozenset[str] | None = None, *, on_bad: OnBad = "error") -> Corpus:
    """Read a corpus line by line; only the wanted messages are kept, once.

    Args:
        path: a JSONL file, plain or gzip (told by its first bytes or by `.gz`).
        roles: which roles to keep; None keeps all.
        on_bad: lines that cannot be used raise ("error"), after all were counted, or are only counted.

    Raises:
        CorpusError: the file cannot be read to its end, no message is left, or a line cannot be used.
    """
    tally = _Tally(roles)
    try:
        for raw in _raw_lines(path):
            tally.take(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(
            f"the corpus {path.name} is a gzip file that is cut off or damaged",
            checked=[str(path), f"after line {tally.lines}: {error}"],
            fix="export or copy it again; `gzip -t` tells whether a copy is whole",
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    report = tally.report(path.name)
    if report.skipped and on_bad == "error":
        raise _bad_lines(path, report)
    if not tally.messages:
        raise _nothing_left(path, report, tally)
    return Corpus(tuple(tally.messages), report)


def _raw_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC or path.suffix == ".gz"
        file.seek(0)
        # A .gz file of 0 bytes would pass as an empty corpus; it is a cut one.
        if zipped and not file.read(1):
            raise EOFError("the file has 0 bytes")
        file.seek(0)
        stream = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file))) if zipped else file
        yield from cast(BinaryIO, stream)


def _why(text: bytes) -> str:
    """Name what is wrong with a line that did not decode; slow, and only for such lines."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    try:
        line = msgspec.json.decode(text)
    except (*_UNDECODABLE, RecursionError):
        return "not JSON"
    return _why_fields(line) if isinstance(line, dict) else "not an object"


def _why_fields(line: dict[str, Any]) -> str:
    if "v" not in line:
        return "no v"
    if line["v"] != VERSION or not isinstance(line["v"], int) or line["v"] is True:
        return "unknown v"
    if "content" not in line:
        return "no content"
    return "content is not text" if not isinstance(line["content"], str) else "role is not text"


def _bad_lines(path: Path, report: CorpusReport) -> CorpusError:
    total = sum(skipped.count for skipped in report.skipped.values())
    first = min(skipped.first_lines[0] for skipped in report.skipped.values())
    reasons = [
        f"{reason}: {skipped.count}, first in line {', '.join(map(str, skipped.first_lines))}"
        for reason, skipped in report.skipped.items()
    ]
    return CorpusError(
        f"{total} of {report.lines} lines of the corpus {path.name} cannot be used, first line {first}",
        checked=[str(path), *reasons],
        fix="mend or remove these lines, or have them counted and left out (`on_bad: count` of the table). "
        f"Needed is {FORMAT}",
    )


def _nothing_left(path: Path, report: CorpusReport, tally: _Tally) -> CorpusError:
    checked = [str(path), f"{report.lines} lines: {report.blank} blank, {report.empty} with empty content"]
    checked += [f"{reason}: {skipped.count}" for reason, skipped in report.skipped.items()]
    checked += [f"role {role}: {count}, not asked for" for role, count in tally.other_roles.items()]
    return CorpusError(
        f"no message of the corpus {path.name} can be used",
        checked=checked,
        fix="name a JSONL file of chat messages"
        + (f" with one of the roles {sorted(tally.roles)}" if tally.roles is not None else "")
        + f": {FORMAT}",
    )


def _unreadable(path: Path, error: OSError) -> CorpusError:
    if isinstance(error, FileNotFoundError):
        cause, fix = "is not there", "check the path; it is taken from the working directory"
    elif isinstance(error, IsADirectoryError):
        cause, fix = "is a folder", "name the JSONL file inside it"
    else:
        cause, fix = "cannot be read", "check who may read it and whether its disk is well"
    return CorpusError(
        f"the corpus {path.name} {cause}", checked=[f"{path}: {error.strerror or error}"], fix=fix
    )
