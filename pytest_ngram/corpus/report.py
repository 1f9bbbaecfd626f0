"""What was in a corpus: each row is used, filtered for a reason, or rejected for a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

# Why a row that can be read is left out. It is looked at in this order, and the first that applies counts.
BLANK, EMPTY = "blank", "empty"
ROLE, SESSION = "another role", "another session"
NO_TIME, TIME = "no ts", "another time"
SHORT, DUPLICATE, SAMPLE = "too short", "duplicate", "not in the sample"
NOT_ASKED_FOR = frozenset({ROLE, SESSION, NO_TIME, TIME, SHORT})


class Skipped(msgspec.Struct, frozen=True):
    """Rows rejected for one reason: how many, and the line numbers (from 1) of the first of them."""

    count: int
    first_lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """What was in one file: `rows` = `used` + those of `filtered` + those of `rejected`.

    Args:
        name: the file's name without its folder.
        sha256: of the uncompressed bytes, so that a corpus and its .gz are the same corpus.
        size_bytes: uncompressed.
        rows: lines of JSONL; of plain text the whole file, or its paragraphs.
        used: messages that count.
        per_role: these by role.
        filtered: rows that can be read and are left out, by reason.
        rejected: rows that cannot be used, by reason.
    """

    name: str
    sha256: str
    size_bytes: int
    rows: int
    used: int
    per_role: Mapping[str, int]
    filtered: Mapping[str, int]
    rejected: Mapping[str, Skipped]

    @property
    def n_rejected(self) -> int:
        """How many rows cannot be used."""
        return sum(skipped.count for skipped in self.rejected.values())


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up counts by their names, the most frequent first."""
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def balance(rows: int, used: int, filtered: Mapping[str, int], rejected: Mapping[str, int]) -> str:
    """Return the sum as one line, such as `12 rows = 9 used + 2 filtered (2 empty) + 1 rejected (1 no v)`."""
    parts = [f"{used} used"]
    for name, counts in (("filtered", filtered), ("rejected", rejected)):
        reasons = f" ({said(counts)})" if counts else ""
        parts.append(f"{sum(counts.values())} {name}{reasons}")
    return f"{rows} rows = {' + '.join(parts)}"


def said(counts: Mapping[str, int]) -> str:
    """Return counts by reason, such as `3 empty, 1 blank`."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())
