"""Puts files into a repository: all of them or none."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from pytest_ngram.errors import OptionError
from pytest_ngram.files import write_whole


def existing(folder: Path, names: Mapping[str, str]) -> list[str]:
    """Return which of these files are there already, as a file, a folder or a link to nowhere."""
    return [name for name in names if (folder / name).exists() or (folder / name).is_symlink()]


def place(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files; on a failure undo what was written.

    A link stays a link: the file that it leads to is written. A file that is there keeps its mode.

    Args:
        folder: the root; it is made where need be.
        texts: by path below the root.

    Raises:
        OptionError: one cannot be written; nothing of this call is left.
    """
    before: dict[Path, tuple[bytes, int] | None] = {}
    made: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            _make_folders(path.parent, made)
            target = _target(path)
            before[target] = (target.read_bytes(), target.stat().st_mode) if target.exists() else None
            _put(target, text.encode(), before[target])
    except BaseException as error:
        _undo(before, made)
        if not isinstance(error, OSError):
            raise
        raise OptionError(
            f"{path.name} cannot be written: {error.strerror or error}",
            checked=[str(path), "nothing was changed"],
            fix="make room, get the right to write there, or name another folder",
        ) from error


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it; each new one is added to `made` at once, outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _target(path: Path) -> Path:
    """Return the file that is written: for a link the one that it leads to, which need not exist."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():  # a link that leads back to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _put(path: Path, content: bytes, before: tuple[bytes, int] | None) -> None:
    write_whole(path, content)
    if before is not None:
        path.chmod(before[1] & 0o7777)


def _undo(before: Mapping[Path, tuple[bytes, int] | None], made: list[Path]) -> None:
    for path, was in before.items():
        with contextlib.suppress(OSError):
            if was is None:
                path.unlink(missing_ok=True)
            else:
                _put(path, was[0], was)
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()
