"""Reads corpora: JSONL, plain or gzip, one message a line; or plain text.

    {"v": 1, "session": "a", "seq": 0, "role": "user", "content": "Hello", "ts": "2026-01-01T00:00:00Z"}

`v` and `content` are needed; other keys may be missing, and unknown ones are allowed.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pytest_ngram.corpus.report import NOT_ASKED_FOR, CorpusReport, added, said
from pytest_ngram.corpus.rows import FORMAT, ROW_LIMIT_BYTES, TOO_LONG, Message
from pytest_ngram.corpus.selection import Selection
from pytest_ngram.corpus.tally import BOM, Chooser, Tally
from pytest_ngram.errors import CorpusError

OnBad = Literal["error", "count"]
# JSONL; or plain text, of which a message is a whole file or a paragraph (what blank lines part).
Format = Literal["jsonl", "text", "paragraphs"]
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The messages of one file in the order of its lines, and the report on all of them."""

    messages: tuple[Message, ...]
    report: CorpusReport


@dataclass(frozen=True, slots=True)
class Corpora:
    """The messages of several files in the order in which they were read, and a report on each file."""

    messages: tuple[Message, ...]
    reports: tuple[CorpusReport, ...]


def read_corpus(path: Path, roles: frozenset[str] | None = None, *, on_bad: OnBad = "error") -> Corpus:
    """Read one file of JSONL.

    Args:
        path: plain or gzip.
        roles: which roles to keep; None keeps all.
        on_bad: as `read_corpora`.

    Raises:
        CorpusError: as `read_corpora`.
    """
    chosen = Selection(roles=None if roles is None else tuple(sorted(roles)))
    corpora = read_corpora([path], chosen, on_bad=on_bad)
    return Corpus(corpora.messages, corpora.reports[0])


def read_corpora(
    paths: Sequence[Path],
    selection: Selection | None = None,
    *,
    on_bad: OnBad = "error",
    kind: Format = "jsonl",
) -> Corpora:
    """Read files row by row; only the messages that count are kept, once.

    Args:
        paths: files, plain or gzip (told by their first bytes or by `.gz`).
        selection: which messages count.
        on_bad: rows that cannot be used raise ("error"), after all were counted, or are only counted.
        kind: what the files hold.

    Raises:
        CorpusError: a file cannot be read to its end or is given twice, no message is left, a row cannot be
            used, or plain text is to be chosen by what it does not have.
    """
    selection = selection or Selection()
    if not paths:
        raise CorpusError("no corpus is named", fix="name at least one file")
    if kind != "jsonl" and selection.by_chat:
        raise CorpusError(
            "plain text has no roles, sessions and times to choose by",
            checked=[str(path) for path in paths],
            fix="leave these filters out, or give chats as JSONL",
        )
    chooser = Chooser(selection)
    for path in paths:
        _read_file(path, chooser, kind)
    reports = tuple(tally.report() for tally in chooser.tallies)
    _refuse_twins(paths, reports)
    if on_bad == "error":
        _refuse_bad_rows(paths, reports, kind)
    messages = chooser.messages()
    if not messages:
        raise _nothing_left(paths, reports, chooser.tallies, selection, kind)
    return Corpora(messages, reports)


def _read_file(path: Path, chooser: Chooser, kind: Format) -> None:
    tally = chooser.begin(path.name)
    try:
        with path.open("rb") as file:
            lines = lines_of(_unzipped(file, path), tally.saw)
            if kind == "jsonl":
                for number, raw in lines:
                    chooser.take_line(raw, number)
            else:
                for number, raw in _whole(lines) if kind == "text" else _paragraphs(lines):
                    chooser.take_text(raw, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(
            f"the corpus {path.name} is a gzip file that is cut off or damaged",
            checked=[str(path), f"{tally.rows} rows, {tally.size_bytes} bytes were read before it: {error}"],
            fix="export or copy it again; `gzip -t` tells whether a copy is whole",
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unzipped(file: io.BufferedReader, path: Path) -> BinaryIO:
    """Return the uncompressed bytes. Looks ahead instead of going back, so that a pipe will do."""
    start = file.peek(2)[:2]
    if start != _GZIP_MAGIC and path.suffix != ".gz":
        return file
    # A .gz file of 0 bytes would pass as an empty corpus; it is a cut one.
    if not start:
        raise EOFError("the file has 0 bytes")
    if start != _GZIP_MAGIC:
        raise CorpusError(
            f"the corpus {path.name} has the name of a gzip file and is none",
            checked=[f"{path}: it begins with {start!r}, a gzip file with {_GZIP_MAGIC!r}"],
            fix="rename it without .gz if it is plain JSONL or text, else export or copy it again",
        )
    return cast(BinaryIO, io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file))))


def lines_of(stream: BinaryIO, saw: Callable[[bytes], None]) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number, None for one that is too long: it is passed over in pieces.

    Args:
        stream: uncompressed.
        saw: called with all bytes, in pieces, before the line that they are of is yielded.
    """
    number = 0
    while raw := stream.readline(ROW_LIMIT_BYTES):
        number += 1
        saw(raw)
        line: bytes | None = raw
        while len(raw) == ROW_LIMIT_BYTES and raw[-1:] != b"\n":
            line, raw = None, b""  # neither is held while the next piece is read
            raw = stream.readline(ROW_LIMIT_BYTES)
            saw(raw)
        yield number, line


def _whole(lines: Iterator[tuple[int, bytes | None]]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the whole file as one row."""
    parts: list[bytes] = []
    size_bytes = 0
    for _number, line in lines:
        size_bytes += ROW_LIMIT_BYTES + 1 if line is None else len(line)
        if line is not None and size_bytes <= ROW_LIMIT_BYTES:
            parts.append(line)
    if size_bytes > ROW_LIMIT_BYTES:
        yield 1, None
    elif parts:
        yield 1, b"".join(parts).removeprefix(BOM)


def _paragraphs(lines: Iterator[tuple[int, bytes | None]]) -> Iterator[tuple[int, bytes | None]]:
    """Yield what blank lines part, with the number of its first line."""
    parts: list[bytes] = []
    size_bytes = first = 0
    for number, raw in lines:
        line = raw.removeprefix(BOM) if raw is not None and number == 1 else raw
        if line is None or line.strip():
            first = first or number
            size_bytes += ROW_LIMIT_BYTES + 1 if line is None else len(line)
            if line is not None and size_bytes <= ROW_LIMIT_BYTES:
                parts.append(line)
        elif first:
            yield first, _joined(parts, size_bytes)
            parts, size_bytes, first = [], 0, 0
    if first:
        yield first, _joined(parts, size_bytes)


def _joined(parts: list[bytes], size_bytes: int) -> bytes | None:
    return b"".join(parts).rstrip(b"\r\n") if size_bytes <= ROW_LIMIT_BYTES else None


def _refuse_twins(paths: Sequence[Path], reports: Sequence[CorpusReport]) -> None:
    twins = sorted(
        zip((report.sha256 for report in reports), paths, reports, strict=True), key=lambda t: t[0]
    )
    for (sha256, one, report), (other_sha256, other, _report) in pairwise(twins):
        if sha256 == other_sha256 and report.size_bytes:
            raise CorpusError(
                "two of the corpora have the same bytes",
                checked=[str(one), str(other), f"sha256 {sha256}"],
                fix="name it once: all that is in it would count twice",
            )


def _refuse_bad_rows(paths: Sequence[Path], reports: Sequence[CorpusReport], kind: Format) -> None:
    bad = [(path, report) for path, report in zip(paths, reports, strict=True) if report.n_rejected]
    if not bad:
        return
    path, report = bad[0]
    total = sum(each.n_rejected for _path, each in bad)
    first = min(skipped.first_lines[0] for skipped in report.rejected.values())
    checked = []
    for each_path, each in bad:
        checked.append(str(each_path))
        checked += [
            f"{reason}: {skipped.count}, first in line {', '.join(map(str, skipped.first_lines))}"
            for reason, skipped in each.rejected.items()
        ]
    if any(TOO_LONG in each.rejected for _path, each in bad) and kind == "text":
        checked.append("a whole file is one message; with --paragraphs each paragraph is one")
    where = f"the corpus {path.name}" if len(bad) == 1 else f"{len(bad)} corpora"
    of_rows = sum(each.rows for _path, each in bad)
    raise CorpusError(
        f"{total} of {of_rows} rows of {where} cannot be used, first line {first}"
        + (f" of {path.name}" if len(bad) > 1 else ""),
        checked=checked,
        fix="mend or remove these rows, or have them counted and left out (`--on-bad-line count`; of a table "
        "in the matrix `on_bad_line: count`)" + (f". Needed is {FORMAT}" if kind == "jsonl" else ""),
    )


def _nothing_left(
    paths: Sequence[Path],
    reports: Sequence[CorpusReport],
    tallies: Sequence[Tally],
    selection: Selection,
    kind: Format,
) -> CorpusError:
    filtered = added(report.filtered for report in reports)
    rejected = added({name: skipped.count for name, skipped in r.rejected.items()} for r in reports)
    checked = [str(path) for path in paths]
    checked.append(f"{sum(report.rows for report in reports)} rows")
    checked += [f"{count} {reason}" for reason, count in (filtered | rejected).items()]
    others = added(tally.other_roles for tally in tallies)
    checked += [f"roles that were not asked for: {said(others)}"] if others else []
    named = f"the corpus {paths[0].name}" if len(paths) == 1 else "the corpora"
    if NOT_ASKED_FOR & filtered.keys() or selection.max_mb is not None:
        fix = "ask for less: roles, sessions, times, min_chars and max_mb leave nothing over"
    else:
        fix = f"name {f'JSONL: {FORMAT}' if kind == 'jsonl' else 'files with text in them'}"
    return CorpusError(f"no message of {named} can be used", checked=checked, fix=fix)


def _unreadable(path: Path, error: OSError) -> CorpusError:
    if isinstance(error, FileNotFoundError):
        cause, fix = "is not there", "check the path; it is taken from the working directory"
    elif isinstance(error, IsADirectoryError):
        cause, fix = "is a folder", "name the files inside it"
    else:
        cause, fix = "cannot be read", "check who may read it and whether its disk is well"
    return CorpusError(
        f"the corpus {path.name} {cause}", checked=[f"{path}: {error.strerror or error}"], fix=fix
    )
