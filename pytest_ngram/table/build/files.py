"""Files that are whole or not there, and a lock between processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_ngram.errors import TableError

TEMP_SUFFIX = ".tmp"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one, even after a power cut.

    The bytes go to a temporary file of the same folder, are synced, and take the name by a rename; then the
    folder is synced. On any failure the temporary file is removed. Raises OSError.
    """
    handle, temp = tempfile.mkstemp(prefix=f"{path.name}.", suffix=TEMP_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames within a folder last. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold a lock that ends with its process, however that ends.

    The lock file stays: removing it would let two processes lock two files of one name.

    Raises:
        TableError: another process held it for `timeout_s`, the file cannot be made, or the file system has
            no locks. What the body raises passes as it is.
    """
    with explained(path.parent):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with explained(path.parent):
            _wait_for_lock(handle, path, timeout_s)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, path: Path, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise TableError(
                    "another process has been building this table for too long",
                    checked=[f"the lock {path}, for {timeout_s:.0f} s"],
                    fix="look for a hanging pytest or pytest-ngram; the lock goes when that process ends",
                ) from None
            time.sleep(0.05)
        else:
            return


def remove_leftovers(folder: Path, stem: str) -> None:
    """Remove temporary files that a killed process left under this name. To be called under the lock."""
    for path in folder.glob(f"{stem}.*{TEMP_SUFFIX}"):
        path.unlink(missing_ok=True)


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
            cause, fix = "the disk is full, the table was not kept", "make room or name another cache folder"
        else:
            cause = "the folder for tables cannot be used"
            fix = "name a folder that can be written to, on a file system with locks"
        raise TableError(cause, checked=checked, fix=fix) from error
