"""Counts rows while they are read, and chooses messages: every row ends up in exactly one count."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_ngram.corpus import report as why_left
from pytest_ngram.corpus.report import CorpusReport, Skipped
from pytest_ngram.corpus.rows import (
    NO_ROLE,
    NOT_UTF8,
    TOO_LONG,
    UNDECODABLE,
    Line,
    Message,
    digest_of,
    why,
)
from pytest_ngram.corpus.selection import Sample, Selection, time_of

FIRST_LINES = 5
BOM = b"\xef\xbb\xbf"
NOT_A_TIME = "ts is not a time"
_DECODER = msgspec.json.Decoder(Line)


@dataclass(slots=True)
class Tally:
    """What is counted of one file."""

    name: str
    digest: Any = field(default_factory=hashlib.sha256)
    size_bytes: int = 0
    rows: int = 0
    per_role: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    other_roles: Counter[str] = field(default_factory=Counter)

    def saw(self, raw: bytes) -> None:
        """Note bytes of the file, whatever they are."""
        self.digest.update(raw)
        self.size_bytes += len(raw)

    def reject(self, reason: str, line: int) -> None:
        """Count a row that cannot be used."""
        count, first = self.rejected.get(reason, (0, []))
        if count < FIRST_LINES:
            first.append(line)
        self.rejected[reason] = (count + 1, first)

    def report(self) -> CorpusReport:
        """Close the books."""
        return CorpusReport(
            name=self.name,
            sha256=self.digest.hexdigest(),
            size_bytes=self.size_bytes,
            rows=self.rows,
            used=self.per_role.total(),
            per_role=dict(+self.per_role),
            filtered=dict(self.filtered),
            rejected={name: Skipped(count, tuple(first)) for name, (count, first) in self.rejected.items()},
        )


class Chooser:
    """Takes the rows of all files, and keeps the messages that count, once.

    A row is a duplicate where an earlier one has the same session, number (`seq`, or `ts` without one), role
    and text: exports overlap. The same text elsewhere is said again, and counts again; so is every row that
    lacks a session, or both of the others.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._roles = None if selection.roles is None else frozenset(selection.roles)
        self._sessions = None if selection.sessions is None else frozenset(selection.sessions)
        self._timed = selection.since is not None or selection.until is not None
        self._seen: set[tuple[object, ...]] = set()
        self._messages: list[Message] = []
        self.tallies: list[Tally] = []
        max_bytes = selection.max_bytes
        self._sample = None if max_bytes is None else Sample(max_bytes, selection.seed, self._push_out)

    def begin(self, name: str) -> Tally:
        """Begin the next file."""
        # a name may hold bytes that are no text, which no JSON can hold
        self.tallies.append(Tally(name.encode(errors="backslashreplace").decode()))
        return self.tallies[-1]

    def take_line(self, raw: bytes | None, number: int) -> None:
        """Count one line of JSONL, and keep its message if it is wanted. None is one that is too long."""
        tally = self.tallies[-1]
        tally.rows += 1
        if raw is None:
            tally.reject(TOO_LONG, number)
            return
        text = raw.removeprefix(BOM) if number == 1 else raw
        try:
            line = _DECODER.decode(text)
        except UNDECODABLE:
            if text.isspace() or not text:
                tally.filtered[why_left.BLANK] += 1
            else:
                tally.reject(why(text), number)
        except RecursionError:
            tally.reject("not JSON", number)
        else:
            self._take(tally, line, number)

    def take_text(self, raw: bytes | None, number: int) -> None:
        """Count a file or a paragraph of plain text that begins in line `number`, and keep it if wanted."""
        tally = self.tallies[-1]
        tally.rows += 1
        try:
            text = None if raw is None else raw.decode()
        except UnicodeDecodeError:
            tally.reject(NOT_UTF8, number)
            return
        if text is None:
            tally.reject(TOO_LONG, number)
        else:
            self._take(tally, Line(v=1, content=text), number)

    def messages(self) -> tuple[Message, ...]:
        """Return the messages that count, in the order in which they were read."""
        return tuple(self._messages if self._sample is None else self._sample.messages())

    def _take(self, tally: Tally, line: Line, number: int) -> None:
        # A corpus has few roles and sessions: each is kept once.
        role = NO_ROLE if line.role is None else sys.intern(line.role)
        session = "" if line.session is None else sys.intern(str(line.session))
        reason = self._why_not(line, role, session)
        if reason == NOT_A_TIME:
            tally.reject(reason, number)
            return
        if reason is not None:
            tally.filtered[reason] += 1
            if reason == why_left.ROLE:
                tally.other_roles[role] += 1
            return
        encoded = line.content.encode()
        digest = digest_of(encoded)
        seq = line.seq if isinstance(line.seq, int | str) else None
        if self._is_duplicate(session, seq, line.ts, role, digest):
            tally.filtered[why_left.DUPLICATE] += 1
            return
        file = len(self.tallies) - 1
        message = Message(number, session, role, line.content, seq, file, digest, len(encoded))
        tally.per_role[role] += 1
        if self._sample is None:
            self._messages.append(message)
        else:
            self._sample.add(message)

    def _why_not(self, line: Line, role: str, session: str) -> str | None:
        if self._roles is not None and role not in self._roles:
            return why_left.ROLE
        if self._sessions is not None and session not in self._sessions:
            return why_left.SESSION
        if self._timed and (reason := self._why_not_then(line.ts)) is not None:
            return reason
        if not line.content:
            return why_left.EMPTY
        return why_left.SHORT if len(line.content) < self._selection.min_chars else None

    def _why_not_then(self, ts: Any) -> str | None:
        if ts is None:
            return why_left.NO_TIME
        moment = time_of(ts)
        if moment is None:
            return NOT_A_TIME
        since, until = self._selection.since, self._selection.until
        within = (since is None or since <= moment) and (until is None or moment < until)
        return None if within else why_left.TIME

    def _is_duplicate(self, session: str, seq: object, ts: Any, role: str, digest: bytes) -> bool:
        number = seq if seq is not None else ts if isinstance(ts, int | float | str) else None
        if not session or number is None:
            return False
        row = (session, number, role, digest)
        if row in self._seen:
            return True
        self._seen.add(row)
        return False

    def _push_out(self, message: Message) -> None:
        tally = self.tallies[message.file]
        tally.per_role[message.role] -= 1
        tally.filtered[why_left.SAMPLE] += 1
