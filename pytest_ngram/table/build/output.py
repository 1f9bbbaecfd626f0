"""Where `table build` may write, looked at before hours of work."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_ngram.errors import TableError
from pytest_ngram.files import TEMP_SUFFIX, may_be_replaced
from pytest_ngram.table.build.files import explained
from pytest_ngram.table.build.manifest import decode_manifest, manifest_path


def check_output(path: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Make sure that a table and its manifest can be written, and take the place of nothing else.

    Args:
        path: of the table.
        inputs: files that are read.
        force: replace what is there, unless it is an input.

    Raises:
        TableError: a name is an input's or that of something else, or the folder cannot be written to.
    """
    if not path.name:
        raise TableError(f"{path} is a folder", checked=[str(path)], fix="name a file in it")
    beside = manifest_path(path)
    if beside == path:
        raise TableError(
            "the table has the name of its manifest",
            checked=[str(path)],
            fix="give it another ending, such as .lcs",
        )
    for new in (path, beside):
        if any(_same(new, given) for given in inputs):
            raise TableError(
                f"{new} would take the place of a file that is read",
                checked=[f"the table {path}, its manifest {beside}"],
                fix="give the table another name",
            )
        _refuse_no_file(new)
    if not force:
        _refuse_strangers(path, beside)
    _try(path, beside)


def _refuse_no_file(path: Path) -> None:
    """Not even by force: renamed over, a device would be gone for all programs of the host."""
    with explained(path.parent):
        if path.is_dir():
            raise TableError(f"{path} is a folder", checked=[str(path)], fix="name a file in it")
        if not may_be_replaced(path):
            raise TableError(
                f"{path} is there, and no regular file",
                checked=[str(path)],
                fix="give the table another name",
            )


def _try(path: Path, beside: Path) -> None:
    """Make files named as those that will be written (`files.replacing`), which are gone at once."""
    with explained(path.parent):
        path.parent.stat()  # tempfile would tidy a `..` behind a folder that is not there
        for new in (path, beside):
            with tempfile.NamedTemporaryFile(prefix=f"{new.name}.", suffix=TEMP_SUFFIX, dir=path.parent):
                pass


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return False


def _refuse_strangers(path: Path, beside: Path) -> None:
    """What is there may be replaced if it is a table of ours with its manifest."""
    there = [str(each) for each in (path, beside) if each.exists() or each.is_symlink()]
    if not there:
        return
    try:
        decode_manifest(beside.read_bytes(), beside.name)
    except (OSError, TableError) as error:
        raise TableError(
            f"{there[0]} is there, and is no table that was built here",
            checked=[*there, f"{beside.name} beside it: {getattr(error, 'cause', None) or error}"],
            fix="give the table another name, or add --force to replace what is there",
        ) from error
