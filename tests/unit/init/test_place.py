"""All files or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.init.place import existing, place


def contents(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text() if p.is_file() else "" for p in sorted(folder.rglob("*"))
    }


def test_files_and_their_folders_are_made(tmp_path: Path) -> None:
    """Also the root, where it is not there yet."""
    place(tmp_path / "new", {"a/b.txt": "1", "c.txt": "2"})
    assert contents(tmp_path / "new") == {"a": "", "a/b.txt": "1", "c.txt": "2"}


def test_what_exists_is_told(tmp_path: Path) -> None:
    """A file, a folder of that name, and a link to nowhere are all in the way."""
    (tmp_path / "a").write_text("")
    (tmp_path / "b").mkdir()
    (tmp_path / "c").symlink_to("nowhere")
    assert existing(tmp_path, {"a": "", "b": "", "c": "", "d": ""}) == ["a", "b", "c"]


def test_a_failure_leaves_all_as_it_was(tmp_path: Path) -> None:
    """The third cannot be written: the first is gone again with its folder, the second is the old one."""
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "file").write_text("in the way")
    before = contents(tmp_path)
    with pytest.raises(OptionError, match="cannot be written") as raised:
        place(tmp_path, {"new/deep/a.txt": "1", "old.txt": "new", "file/b.txt": "2"})
    assert "nothing was changed" in str(raised.value)
    assert contents(tmp_path) == before
