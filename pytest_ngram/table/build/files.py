"""The files of tables: how they are written, the lock of the cache, errors told as errors about tables."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from pytest_ngram import files
from pytest_ngram.errors import TableError


@contextlib.contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a table.

    Raises:
        TableError: another process held it for `timeout_s`, the file cannot be made, or the file system has
            no locks. What the body raises passes as it is.
    """
    with contextlib.ExitStack() as stack:
        with explained(path.parent):
            try:
                stack.enter_context(files.locked(path, timeout_s))
            except TimeoutError as error:
                raise TableError(
                    "another process has been building this table for too long",
                    checked=[f"the lock {path}, for {timeout_s:.0f} s"],
                    fix="look for a hanging pytest or pytest-ngram; the lock goes when that process ends",
                ) from error
        yield


def write_table(path: Path, data: bytes, beside: Path, manifest: bytes) -> None:
    """Write a table and its manifest: both whole, or what was there before.

    Both are on the disk before either takes its name, so a full disk or Ctrl-C changes nothing. Ctrl-C
    while they take their names waits until both have. Where one cannot, neither is left: a table is never
    beside the manifest of another.

    Raises:
        TableError: the folder cannot be written to, or the disk is full.
    """
    naming = False
    with explained(path.parent), contextlib.ExitStack() as last:
        try:
            with files.replacing(path) as new_table, files.replacing(beside) as new_manifest:
                files.write_synced(new_table, data)
                files.write_synced(new_manifest, manifest)
                last.enter_context(files.uninterrupted())
                naming = True
        except BaseException:
            if naming:
                path.unlink(missing_ok=True)
                beside.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an OSError about a cache folder into a `TableError`."""
    try:
        yield
    except OSError as error:
        checked = [f"{error.filename or folder}: {error.strerror or error}"]
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            with contextlib.suppress(OSError):
                checked.append(f"{shutil.disk_usage(folder).free} bytes free in {folder}")
            cause, fix = "the disk is full, the table was not kept", "make room or name another folder"
        elif error.errno == errno.EFBIG:
            cause = "the table is larger than a file may be, and was not kept"
            fix = "raise the limit (`ulimit -f`), or prune harder"
        else:
            cause = "the folder for tables cannot be used"
            fix = "name a folder that can be written to, on a file system with locks"
        raise TableError(cause, checked=checked, fix=fix) from error
