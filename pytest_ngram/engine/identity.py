"""Which file answered: a hash of the server's code, cached, since reading 100 MB takes a while."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from pytest_ngram.files import write_whole
from pytest_ngram.models import hashes


def file_sha256(path: Path, cache_dir: Path | None) -> str:
    """Return the SHA-256 of a file in hex.

    With a `cache_dir` the answer is kept there by path, size and time of change, so a file is read once.

    Raises:
        OSError: the file cannot be read. A cache that cannot be read or written is done without.
    """
    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()[:32]
    kept = cache_dir / f"sha256-{key}.json" if cache_dir is not None else None
    known = _load(kept)
    if known is not None:
        return known
    digest = hashes.file_sha256(path)
    if kept is not None:
        _store(kept, {"path": str(path), "sha256": digest})
    return digest


def _load(kept: Path | None) -> str | None:
    try:
        digest = json.loads(kept.read_bytes())["sha256"] if kept is not None else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if isinstance(digest, str) else None


def _store(kept: Path, content: dict[str, str]) -> None:
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps(content).encode())
