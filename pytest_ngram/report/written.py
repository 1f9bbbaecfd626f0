"""A report as a file, of the kind that its name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_ngram.errors import OptionError
from pytest_ngram.files import write_whole
from pytest_ngram.report.html import page
from pytest_ngram.report.markdown import markdown
from pytest_ngram.report.page import Shown

KINDS: Mapping[str, Callable[[Shown], str]] = {".html": page, ".md": markdown}


def check_name(path: Path, option: str) -> None:
    """Find, before anything is measured, that a report could not be written.

    Raises:
        OptionError: the name has no ending that tells a kind, or its folder is not there.
    """
    if path.suffix not in KINDS:
        raise OptionError(
            f"{option} names a report of no kind",
            checked=[str(path)],
            fix=f"let the name end with {' or '.join(KINDS)}",
        )
    if path.is_dir() or not path.parent.is_dir():
        what = "a folder" if path.is_dir() else "in no folder"
        raise OptionError(
            f"{option} cannot be written: {path} is {what}",
            checked=[str(path.parent)],
            fix="name a file in a folder that is there",
        )


def write_report(path: Path, shown: Shown) -> None:
    """Write a report; its old file stays until the new one is whole. Raises OSError."""
    write_whole(path, KINDS[path.suffix](shown).encode("utf-8", "replace"))
