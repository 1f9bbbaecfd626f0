"""Puts files into a repository: all of them or none."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from pytest_ngram.errors import OptionError
from pytest_ngram.files import write_whole


def existing(folder: Path, names: Mapping[str, str]) -> list[str]:
    """Return which of these files are there already, as a file, a folder or a link to nowhere."""
    return [name for name in names if (folder / name).exists() or (folder / name).is_symlink()]


def place(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files; on a failure undo what was written.

    Args:
        folder: the root; it is made where need be.
        texts: by path below the root.

    Raises:
        OptionError: one cannot be written; nothing of this call is left.
    """
    before: dict[Path, bytes | None] = {}
    made: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            made += _make_folders(path.parent)
            before[path] = path.read_bytes() if path.exists() else None
            write_whole(path, text.encode())
    except BaseException as error:
        _undo(before, made)
        if not isinstance(error, OSError):
            raise
        raise OptionError(
            f"{path.name} cannot be written: {error.strerror or error}",
            checked=[str(path), "nothing was changed"],
            fix="make room, get the right to write there, or name another folder",
        ) from error


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the new ones, outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _undo(before: Mapping[Path, bytes | None], made: list[Path]) -> None:
    for path, content in before.items():
        with contextlib.suppress(OSError):
            if content is None:
                path.unlink(missing_ok=True)
            else:
                write_whole(path, content)
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()
