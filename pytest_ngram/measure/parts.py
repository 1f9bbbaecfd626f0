"""A model file that comes in pieces, put together once."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_ngram.engine.identity import file_sha256
from pytest_ngram.errors import ModelError
from pytest_ngram.files import locked, remove_leftovers, replacing

_LOG = logging.getLogger(__name__)
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
        sha256: what the whole has to have.

    Raises:
        ModelError: a part is missing, the parts are files of their own, the whole has another hash, or the
            folder cannot be written; no half-written file stays behind.
    """
    try:
        _check(parts)
        folder.mkdir(parents=True, exist_ok=True)
        whole = folder / _name(parts, folder)
        with locked(whole.with_suffix(".lock"), _LOCK_TIMEOUT_S):
            remove_leftovers(folder, whole.stem)
            known = _intact(whole, folder) or _write(whole, parts, sha256)
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


def _begins_a_file(part: Path) -> bool:
    with part.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _name(parts: Sequence[Path], folder: Path) -> str:
    """`gemma.gguf.part00` and its like make `gemma-0123456789abcdef.gguf`."""
    hashes = "".join(f"{file_sha256(part, folder)}\n" for part in parts)
    stem = re.sub(r"\.gguf.*", "", parts[0].name)
    return f"{stem}-{hashlib.sha256(hashes.encode()).hexdigest()[:16]}.gguf"


def _intact(whole: Path, folder: Path) -> str | None:
    """The hash of a whole file that is as it was written, else None."""
    sidecar = whole.with_suffix(".json")
    if not whole.exists() or not sidecar.exists():
        return None
    try:
        expected = json.loads(sidecar.read_text(encoding="utf-8"))["sha256"]
    except (ValueError, KeyError, TypeError):
        _LOG.warning("%s cannot be read; the model beside it is put together anew", sidecar)
        return None
    found = file_sha256(whole, folder)
    if found != expected:
        _LOG.warning("%s is not as it was written; putting it together anew", whole)
        return None
    return found


def _write(whole: Path, parts: Sequence[Path], sha256: str | None) -> str:
    whole.with_suffix(".json").unlink(missing_ok=True)  # no moment in which it vouches for another file
    with replacing(whole) as new:
        digest = hashlib.sha256()
        with new.open("wb") as out:
            for part in parts:
                with part.open("rb") as piece:
                    while block := piece.read(_BLOCK_BYTES):
                        digest.update(block)
                        out.write(block)
        _check_hash(parts, digest.hexdigest(), sha256)
    described = {"sha256": digest.hexdigest(), "parts": [part.name for part in parts]}
    with replacing(whole.with_suffix(".json")) as new:
        new.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return digest.hexdigest()


def _check_hash(parts: Sequence[Path], found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        raise ModelError(
            "the parts do not make the file that the matrix names",
            checked=[f"sha256 {found}", f"expected {expected}", *map(str, parts)],
            fix="check the order of the parts and their versions, and `sha256:`",
        )
