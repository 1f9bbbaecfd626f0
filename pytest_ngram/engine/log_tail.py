"""The end of a log file, read from its end: a log of any size costs the same memory."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_BYTES = 64 * 1024
_MAX_LINE = 500


def tail(path: Path, lines: int = 20) -> tuple[str, ...]:
    """Return the last `lines` lines, oldest first, each cut to 500 characters; empty where there is no file.

    At most the last 64 KiB are read; a first line that this cuts in two is left out.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MAX_BYTES))
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    found = text.splitlines()
    if size > _MAX_BYTES and len(found) > 1:
        found = found[1:]
    return tuple(line[:_MAX_LINE] for line in found[-lines:] if line.strip())


def size_bytes(path: Path) -> int:
    """Return the size of the file, 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
