"""A model file that comes in pieces, put together once."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

from pytest_ngram.engine.identity import file_sha256
from pytest_ngram.errors import ModelError
from pytest_ngram.files import locked, remove_leftovers, replacing
from pytest_ngram.models.kept import intact_sha256

_LOCK_TIMEOUT_S = 3600.0  # a file of many GB on a slow disk
_BLOCK_BYTES = 1 << 20
_MAGIC = b"GGUF"


def join(parts: Sequence[Path], folder: Path, sha256: str | None = None) -> Path:
    """Return the file that the parts make, put together in the folder if it is missing or not what it was.

    It is named by the hashes of its parts; beside it stands a JSON with its own, which is checked on every
    call (and read anew only when the file changed). Processes that ask at the same time wait for one another.

    Args:
        parts: pieces of one file, cut anywhere, in order.
        folder: made if it is not there.
        sha256: what the whole has to have. Without it the parts' names have to number them.

    Raises:
        ModelError: a part is missing or named twice, the parts are files of their own, are out of order or
            of no order that can be told, the whole has another hash, or the folder cannot be written; no
            half-written file stays behind.
    """
    try:
        _check(parts)
        if sha256 is None:
            _check_order(parts)
        folder.mkdir(parents=True, exist_ok=True)
        if sha256 is None:
            _check_copies(parts, folder)
        whole = folder / _name(parts, folder)
        with locked(whole.with_suffix(".lock"), _LOCK_TIMEOUT_S):
            remove_leftovers(folder, whole.stem)
            known = intact_sha256(whole, partial(file_sha256, cache_dir=folder))
            known = known or _write(whole, parts, sha256)
    except OSError as error:
        free = [f"{shutil.disk_usage(folder).free} bytes free"] if error.errno == errno.ENOSPC else []
        raise ModelError(
            "the parts of the model cannot be put together",
            checked=[f"{error.filename or folder}: {error.strerror or error}", *free],
            fix="make room, or name a cache folder that can be written (--ngram-cache-dir)",
        ) from error
    _check_hash(parts, known, sha256)
    return whole


def _check(parts: Sequence[Path]) -> None:
    gone = [str(part) for part in parts if not part.is_file()]
    if gone:
        raise ModelError(
            f"{len(gone)} of the model's {len(parts)} parts are missing",
            checked=gone,
            fix="correct the names, or fetch these parts",
        )
    _check_named_once(parts)
    begin = [part for part in parts if _begins_a_file(part)]
    if begin and begin[0] != parts[0]:
        raise ModelError(
            "the parts of the model are in the wrong order",
            checked=[f"{begin[0]} begins as a GGUF file, {parts[0]} does not"],
            fix="name the part first that begins the file, and the others in their order",
        )
    if len(begin) > 1:
        raise ModelError(
            "the parts are GGUF files of their own, not pieces of one",
            checked=[f"{part} begins as a GGUF file" for part in begin],
            fix="give the first shard as `path:`; the others are found beside it",
        )


def _check_named_once(parts: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for part in parts:
        place = part.resolve()
        if place in seen:
            raise ModelError(
                "a part is named twice",
                checked=[f"{seen[place]} and {part} are one file"],
                fix="name each part once, in order",
            )
        seen[place] = part


def _check_order(parts: Sequence[Path]) -> None:
    """Without a hash of the whole the names have to tell the order: a wrong one loads, and drafts noise."""
    if len(parts) < 2:
        return
    numbers = _numbers([part.name for part in parts])
    if numbers is None:
        found = _digest(parts)
        raise ModelError(
            "nothing tells whether the parts are in order: their names do not number them, and there is "
            "no `sha256:`",
            checked=[f"in this order they make a file of sha256 {found}", *map(str, parts)],
            fix="compare it with the one that the model's source states, and add that one as `sha256:`",
        )
    for due, (number, part) in enumerate(zip(numbers, parts, strict=True), start=numbers[0]):
        if number != due:
            raise ModelError(
                "the parts of the model are in the wrong order, or one is left out",
                checked=[f"{part} stands where part {due} is due"],
                fix="name all parts in the order of their numbers, or give the whole file's `sha256:`",
            )


def _numbers(names: Sequence[str]) -> list[int] | None:
    """The one number in which names differ: of `q4.part1of3`, `q4.part2of3` 1 and 2; else None."""
    split = [re.split(r"([0-9]+)", name) for name in names]
    if len({len(pieces) for pieces in split}) != 1:
        return None
    columns = [[*column] for column in zip(*split, strict=True)]
    differ = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    if len(differ) != 1 or differ[0] % 2 == 0:  # words stand at even places
        return None
    return [int(number) for number in columns[differ[0]]]


def _check_copies(parts: Sequence[Path], folder: Path) -> None:
    seen: dict[str, Path] = {}
    for part in parts:
        other = seen.setdefault(file_sha256(part, folder), part)
        if other is not part:
            raise ModelError(
                "two parts hold the same bytes",
                checked=[f"{other} and {part}"],
                fix="fetch the right ones; if the file does repeat itself, give the whole's `sha256:`",
            )


def _digest(parts: Sequence[Path], out: IO[bytes] | None = None) -> str:
    """The hash of the parts end to end, which go to `out` too."""
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as piece:
            while block := piece.read(_BLOCK_BYTES):
                digest.update(block)
                if out is not None:
                    out.write(block)
    return digest.hexdigest()


def _begins_a_file(part: Path) -> bool:
    with part.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _name(parts: Sequence[Path], folder: Path) -> str:
    """`gemma.gguf.part00` and its like make `gemma-0123456789abcdef.gguf`."""
    hashes = "".join(f"{file_sha256(part, folder)}\n" for part in parts)
    stem = re.sub(r"\.gguf.*", "", parts[0].name)
    return f"{stem}-{hashlib.sha256(hashes.encode()).hexdigest()[:16]}.gguf"


def _write(whole: Path, parts: Sequence[Path], sha256: str | None) -> str:
    whole.with_suffix(".json").unlink(missing_ok=True)  # no moment in which it vouches for another file
    with replacing(whole) as new:
        with new.open("wb") as out:
            found = _digest(parts, out)
        _check_hash(parts, found, sha256)
    described = {"sha256": found, "parts": [part.name for part in parts]}
    with replacing(whole.with_suffix(".json")) as new:
        new.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return found


def _check_hash(parts: Sequence[Path], found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        raise ModelError(
            "the parts do not make the file that the matrix names",
            checked=[f"sha256 {found}", f"expected {expected}", *map(str, parts)],
            fix="check the order of the parts and their versions, and `sha256:`",
        )
