"""What the export holds: an age-encrypted gzip of JSONL, unpacked and checked line by line."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from pytest_ngram.corpus.reader import lines_of
from pytest_ngram.corpus.report import Skipped
from pytest_ngram.corpus.rows import FORMAT, UNDECODABLE, Line, why
from pytest_ngram.corpus.tally import BOM, FIRST_LINES
from pytest_ngram.errors import CorpusError

_DECODER = msgspec.json.Decoder(Line)
_SERVER = "have the export mended; what was here before stays as it was"


def decrypt(encrypted: BinaryIO, new: Path, identities: Sequence[Any]) -> None:
    """Decrypt into a file that is there; it is not larger than what is read.

    Raises:
        CorpusError: it is not age, damaged, or for nobody of these identities.
        OSError: the file cannot be written.
    """
    import pyrage

    with new.open("wb") as file:
        try:
            pyrage.decrypt_io(encrypted, file, list(identities))
        except pyrage.DecryptError as error:
            raise _not_decrypted(str(error)) from None
        except OSError as error:
            if error.errno is not None:  # the disk's; age's own have none
                raise
            raise _not_decrypted(str(error)) from None


@dataclass(frozen=True, slots=True)
class Checked:
    """What is in an export: how many rows, blank lines being none, and those of them that are too long.

    These are no reason to have nothing: whoever reads the file passes over them, and counts them.
    """

    rows: int
    too_long: Skipped | None


def check_rows(path: Path, wanted_rows: int, max_bytes: int) -> Checked:
    """Return what is in a gzip-JSONL file, once each row was found usable, or too long to be looked at.

    Nothing is kept: memory is that of the longest row (`ROW_LIMIT_BYTES` at most), whatever the file
    unpacks to.

    Raises:
        CorpusError: no gzip, damaged, other rows than `wanted_rows`, more text than `max_bytes`, or rows that
            cannot be used, by number and reason; of their text nothing is shown.
        OSError: the file cannot be read.
    """
    tally = _Tally(wanted_rows, max_bytes)
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            raise CorpusError(
                "the export was decrypted, and is no gzip file", checked=["its first two bytes"], fix=_SERVER
            )
        file.seek(0)
        try:
            unzipped = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)))
            for number, raw in lines_of(cast(BinaryIO, unzipped), tally.saw):
                tally.take(number, raw)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            # Their words are left out: one of them quotes what it found.
            raise CorpusError(
                "the export was decrypted, and is a gzip file that is cut off or damaged",
                checked=[f"{tally.lines} lines could be read"],
                fix=_SERVER,
            ) from None
    tally.close()
    too_long = tally.too_long
    skipped = Skipped(len(too_long), tuple(too_long[:FIRST_LINES])) if too_long else None
    return Checked(tally.rows, skipped)


@dataclass(slots=True)
class _Tally:
    wanted_rows: int
    max_bytes: int
    lines: int = 0
    rows: int = 0
    size_bytes: int = 0
    bad: dict[str, list[int]] = field(default_factory=dict)
    too_long: list[int] = field(default_factory=list)

    def saw(self, raw: bytes) -> None:
        self.size_bytes += len(raw)
        if self.size_bytes > self.max_bytes:
            raise CorpusError(
                "the export unpacks to more than is allowed",
                checked=[f"more than {self.max_bytes} bytes, in line {self.lines + 1}"],
                fix="raise --max-mb if you expect as much",
            )

    def take(self, number: int, raw: bytes | None) -> None:
        self.lines = number
        text = raw.removeprefix(BOM) if raw is not None and number == 1 else raw
        if text is not None and (not text or text.isspace()):
            return
        self.rows += 1
        if self.rows > self.wanted_rows:
            raise self._other_rows("and there are more")
        if text is None:
            self.too_long.append(number)
        elif (reason := _reason(text)) is not None:
            self.bad.setdefault(reason, []).append(number)

    def close(self) -> None:
        if self.bad:
            raise self._bad_lines()
        if self.rows != self.wanted_rows:
            raise self._other_rows(f"and there are {self.rows}")

    def _other_rows(self, found: str) -> CorpusError:
        return CorpusError(
            "the export does not hold the rows that its manifest tells",
            checked=[f"{self.wanted_rows} rows are told, {found}"],
            fix=_SERVER,
        )

    def _bad_lines(self) -> CorpusError:
        total = sum(len(lines) for lines in self.bad.values())
        first = min(lines[0] for lines in self.bad.values())
        reasons = [
            f"{reason}: {len(lines)}, first in line {', '.join(map(str, lines[:FIRST_LINES]))}"
            for reason, lines in self.bad.items()
        ]
        return CorpusError(
            f"{total} of {self.lines} lines of the export cannot be used, first line {first}",
            checked=reasons,
            fix=f"{_SERVER}. Needed is {FORMAT}",
        )


def _reason(text: bytes) -> str | None:
    """Return what is wrong with a row, None where it can be used."""
    try:
        _DECODER.decode(text)
    except (*UNDECODABLE, RecursionError):
        return why(text)
    return None


def _not_decrypted(what: str) -> CorpusError:
    return CorpusError(
        "the export cannot be decrypted",
        checked=[f"age: {what}", "the SHA-256 of the manifest fits, so it came as the server has it"],
        fix="check that the identity file is of a recipient that the server encrypts for",
    )
