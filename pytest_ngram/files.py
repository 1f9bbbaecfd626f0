"""Files that are whole or not there, steps that nothing interrupts, and locks between processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

TEMP_SUFFIX = ".tmp"
_MODE = 0o644


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = _MODE) -> Iterator[Path]:
    """Yield the path of a new file in the same folder; it takes the place of `path` if nothing is raised.

    A reader sees the old file or the whole new one, even after a power cut: the new file is synced, takes the
    name by a rename, and the folder is synced. On any failure the new file is removed. `mode` is that of the
    finished file; until then its owner alone may read it. What is no file (a device, a pipe, a link to one)
    is never replaced. Raises OSError.
    """
    if not may_be_replaced(path):
        raise OSError(errno.EINVAL, "is there, and no regular file", str(path))
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=TEMP_SUFFIX, dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
        _sync(name, os.O_RDONLY)
        os.chmod(name, mode)  # a temporary file is made for its owner's eyes only
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def may_be_replaced(path: Path) -> bool:
    """Whether nothing, a file or a link to one of these is at `path`: root could rename over `/dev/null`.

    Raises OSError where that cannot be told.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths are of one file, whether it is there or not. Raises OSError."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file by `replacing`. Raises OSError."""
    with replacing(path) as new:
        new.write_bytes(data)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file, and wait until the disk has it: a disk that is full says so here. Raises OSError."""
    path.write_bytes(data)
    _sync(path, os.O_RDONLY)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the body is done, and then do what they do.

    For a few steps of which all have to be made. Only what a handler of Python's own answers to can wait, and
    only in the main thread; elsewhere no such signal arrives.
    """
    waiting: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if in_main and callable(handler := signal.getsignal(number))
    }
    try:
        for number in before:
            signal.signal(number, lambda number, frame: waiting.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in waiting[:1]:
            signal.raise_signal(caught)


def remove_leftovers(folder: Path, stem: str) -> None:
    """Remove what a killed process left of files with this stem. To be called under their lock."""
    for path in folder.glob(f"{stem}.*{TEMP_SUFFIX}"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold a lock that ends with its process, however that ends.

    The lock file stays: removing it would let two processes lock two files of one name.

    Raises:
        TimeoutError: another process held it for `timeout_s`. It is an OSError, as are all other failures.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _wait_for_lock(handle, path, timeout_s)
        yield
    finally:
        os.close(handle)


def hold(path: Path, owner: object) -> None:
    """Mark a file as in use while an object lives, at most until its process ends. Raises OSError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    weakref.finalize(owner, os.close, handle)
    fcntl.flock(handle, fcntl.LOCK_SH)


def is_held(path: Path) -> bool:
    """Whether any process marks a file as in use; one that is not there is not. Raises OSError."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _wait_for_lock(handle: int, path: Path, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"another process has held {path} for {timeout_s:.0f} s") from None
            time.sleep(0.05)
        else:
            return


def _sync(path: str | Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
