"""The journal: every cell as a line of JSON the moment it ends, so that nothing measured is ever lost."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Literal

import msgspec

from pytest_ngram.errors import RecordError
from pytest_ngram.record import Prompt, Record, ServerStart, from_json

JOURNAL = 1


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a journal is of. A run may go on with it only if all of this is the same."""

    journal: int
    version: str
    matrix_sha256: str
    profile: str
    seed: int


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--ngram-budget` chose: so many blocks, and so many prompts of each model, by name."""

    budget_s: float
    blocks: int
    prompts: int
    names: dict[str, tuple[str, ...]] = {}


class Saved(msgspec.Struct, frozen=True):
    """What a journal held.

    `torn_bytes` is the length of a last line that was cut off while it was written; the lines before it are
    the first `whole_bytes` bytes.
    """

    header: Header
    cells: tuple[Record, ...]
    starts: tuple[ServerStart, ...]
    prompts: tuple[Prompt, ...]
    whole_bytes: int
    torn_bytes: int
    budget: Budget | None = None


Kind = Literal["header", "cell", "start", "prompt", "budget"]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    data: msgspec.Raw


_KINDS: dict[Kind, type[Header | ServerStart | Prompt | Budget]] = {
    "header": Header,
    "start": ServerStart,
    "prompt": Prompt,
    "budget": Budget,
}


class Journal:
    """An open journal. Each line is written whole and handed to the disk before the run goes on."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self._file = file

    @classmethod
    def create(cls, path: Path, header: Header) -> Journal:
        """Begin a new journal. Raises `RecordError` if the file exists or cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("xb", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = cls(path, file)
        except OSError as error:
            raise RecordError(
                f"the journal cannot be created: {error.strerror}",
                checked=[str(path)],
                fix="name another file with --ngram-journal; to go on with this one use --ngram-resume",
            ) from error
        try:
            journal._write("header", header)
        except RecordError:
            journal.close()
            path.unlink(missing_ok=True)
            raise
        return journal

    @classmethod
    def append_to(cls, path: Path, saved: Saved) -> Journal:
        """Go on with a journal that `read` returned; a torn last line is cut off.

        Raises:
            RecordError: it cannot be written, or grew meanwhile: another run goes on with it.
        """
        try:
            file = path.open("ab", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.tell() != saved.whole_bytes + saved.torn_bytes:
                raise BlockingIOError(errno.EBUSY, "it has grown since it was read")
            os.truncate(path, saved.whole_bytes)
        except OSError as error:
            raise RecordError(
                f"the journal cannot be gone on with: {error.strerror}",
                checked=[str(path)],
                fix="wait for the other run that goes on with it, or see to the file's rights",
            ) from error
        return cls(path, file)

    def cell(self, record: Record) -> None:
        """Append a cell that ended."""
        self._write("cell", record)

    def start(self, start: ServerStart) -> None:
        """Append a start of an engine."""
        self._write("start", start)

    def prompt(self, prompt: Prompt) -> None:
        """Append the ids that a prompt became."""
        self._write("prompt", prompt)

    def budget(self, budget: Budget) -> None:
        """Append what a budget chose."""
        self._write("budget", budget)

    def close(self) -> None:
        """Close the file; a closed journal stays readable."""
        self._file.close()

    def _write(self, kind: Kind, data: object) -> None:
        line = msgspec.json.encode(_Line(kind=kind, data=msgspec.Raw(msgspec.json.encode(data)))) + b"\n"
        try:
            begin = self._file.tell()
            rest = memoryview(line)
            while rest:  # a disk that is almost full takes part of a line
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):  # half a line would break those that come after it
                self._file.truncate(begin)
            raise RecordError(
                f"the journal cannot be written: {error.strerror}",
                checked=[str(self.path), f"a line of {len(line)} bytes"],
                fix=f"make room, then go on with --ngram-resume {self.path}",
            ) from error


def read(path: Path) -> Saved:
    """Read a journal.

    Raises:
        RecordError: no such file, no header, or a broken line that is not the last one (names its number).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"the journal cannot be read: {error.strerror}",
            checked=[str(path)],
            fix="name the file that the interrupted run printed",
        ) from error
    whole, _, torn = content.rpartition(b"\n")
    header, *rest = [_entry(path, number, line) for number, line in enumerate(whole.split(b"\n"), 1)]
    if not isinstance(header, Header) or header.journal != JOURNAL:
        raise RecordError(
            "the file is not a journal of this version: its first line is no header",
            checked=[str(path), f"{len(content)} bytes; this version reads journal version {JOURNAL}"],
            fix="name a journal, not a saved JSON: a saved JSON is compared, a journal is resumed",
        )
    return Saved(
        header=header,
        cells=tuple(entry for entry in rest if isinstance(entry, Record)),
        starts=tuple(entry for entry in rest if isinstance(entry, ServerStart)),
        prompts=tuple(entry for entry in rest if isinstance(entry, Prompt)),
        whole_bytes=len(content) - len(torn),
        torn_bytes=len(torn),
        budget=next((entry for entry in reversed(rest) if isinstance(entry, Budget)), None),
    )


def _entry(path: Path, number: int, line: bytes) -> Header | Record | ServerStart | Prompt | Budget:
    try:
        entry = msgspec.json.decode(line, type=_Line)
        if entry.kind == "cell":
            return from_json(bytes(entry.data))
        return msgspec.json.decode(entry.data, type=_KINDS[entry.kind])
    except (msgspec.DecodeError, RecordError, RecursionError) as error:
        raise RecordError(
            f"line {number} of the journal cannot be read",
            checked=[str(path), str(error).splitlines()[0]],
            fix="take the line out, its cell will be measured again; or start anew without --ngram-resume"
            if number > 1
            else "name a journal, such as .ngram/journal-….jsonl; a saved JSON is compared, not resumed",
        ) from error
