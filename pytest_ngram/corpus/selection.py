"""Which messages of a corpus count: filters, and a subsample that can be drawn again."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from pytest_ngram.corpus.rows import Message
from pytest_ngram.errors import CorpusError

MB = 1_000_000
_TIMES = "a date such as 2026-01-31 (its first moment), or a time such as 2026-01-31T12:00:00Z"


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which messages count. All where nothing is set; an empty message never does.

    Args:
        roles: whose messages; null is all, since answers quote questions and tool results.
        sessions: of which sessions; null is all.
        since, until: since ≤ `ts` < until, so that months put end to end share no message. A row without
            `ts` has no place in time and is left out, counted, where one of the two is set.
        min_chars: characters that a message has at least.
        max_mb: size of the subsample in MB (10⁶ bytes of text in UTF-8); null takes all.
        seed: of the subsample. See `Sample` for how it is drawn.

    Raises:
        CorpusError: a value that makes no sense.
    """

    roles: tuple[str, ...] | None = None
    sessions: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    min_chars: int = 1
    max_mb: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is an empty list; allowed: null (all) or at least one"
            for name, value in (("roles", self.roles), ("sessions", self.sessions))
            if value is not None and not value
        ]
        if self.min_chars < 1:
            wrong.append(f"min_chars is {self.min_chars}; allowed: 1 or more")
        if self.max_mb is not None and not 0 < self.max_mb < math.inf:
            wrong.append(f"max_mb is {self.max_mb}; allowed: null (all) or a size above 0")
        if self.since is not None and self.until is not None and self.since >= self.until:
            wrong.append(f"since {self.since.isoformat()} is not before until {self.until.isoformat()}")
        if wrong:
            raise CorpusError("no message can be chosen so", checked=wrong, fix="change it")

    @property
    def by_chat(self) -> bool:
        """Whether it asks for what plain text does not have."""
        return any(value is not None for value in (self.roles, self.sessions, self.since, self.until))

    @property
    def max_bytes(self) -> int | None:
        """The size of the subsample in bytes."""
        return None if self.max_mb is None else int(self.max_mb * MB)


def parse_time(text: str, what: str) -> datetime:
    """Return what `--since` or `--until` means; without an offset it is UTC. Raises `CorpusError`."""
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError as error:
        raise CorpusError(
            f"{what} {text!r} is no time", checked=[str(error)], fix=f"write {_TIMES}"
        ) from error


def time_of(ts: Any) -> datetime | None:
    """Return the moment that a row's `ts` names: ISO 8601 (UTC without an offset) or Unix seconds.

    Returns:
        None for what is neither.
    """
    try:
        if isinstance(ts, str):
            return _aware(datetime.fromisoformat(ts))
        if isinstance(ts, int | float) and not isinstance(ts, bool):
            return datetime.fromtimestamp(ts, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class Sample:
    """A subsample of whole messages, the same whatever the order of files and rows.

    Each message has a place that its text and the seed decide: the first 8 bytes of BLAKE2b, keyed by the
    seed. Messages are taken in that order up to the first that does not fit. So a sample of 4 MB is part of
    that of 8 MB by the same seed, and one more export changes only what its messages push out. A message
    larger than the whole sample is passed over. Memory is that of the sample.

    Messages, not sessions: a table never looks across a seam, and 4 MB out of all sessions know more words
    than 4 MB out of a few.

    Args:
        max_bytes: of all texts together.
        seed: any integer.
        left_out: called with each message that is not in it.
    """

    def __init__(self, max_bytes: int, seed: int, left_out: Callable[[Message], None]) -> None:
        self._max_bytes = max_bytes
        self._seed = str(seed).encode()
        self._left_out = left_out
        self._heap: list[tuple[int, int, Message]] = []
        self._size_bytes = 0
        self._bound = -(1 << 64)
        self._taken = 0

    def add(self, message: Message) -> None:
        """Take a message, and leave out those that it pushes out."""
        # negative, since heapq keeps the smallest on top and the last place goes first
        place = -int.from_bytes(hashlib.blake2b(message.digest, digest_size=8, key=self._seed[:64]).digest())
        if place <= self._bound or message.size_bytes > self._max_bytes:
            self._left_out(message)
            return
        self._taken += 1
        heapq.heappush(self._heap, (place, self._taken, message))
        self._size_bytes += message.size_bytes
        while self._size_bytes > self._max_bytes:
            # from here on nothing behind this place fits: else a later, smaller message would depend on order
            self._bound, _, last = heapq.heappop(self._heap)
            self._size_bytes -= last.size_bytes
            self._left_out(last)

    def messages(self) -> list[Message]:
        """Return what was taken, in the order in which it was read."""
        return [message for _, _, message in sorted(self._heap, key=lambda entry: entry[1])]
