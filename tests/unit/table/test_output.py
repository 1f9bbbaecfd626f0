"""Where a table may be written: never over what is read, nor over somebody else's file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.errors import TableError
from pytest_ngram.table.build import BuiltTable, manifest_path
from pytest_ngram.table.build.output import check_output

Build = Callable[..., BuiltTable]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    path.write_text("{}")
    return path


def test_a_new_name_in_a_folder_that_can_be_written_passes(tmp_path: Path, corpus: Path) -> None:
    """And nothing is left of the trial."""
    check_output(tmp_path / "chats.lcs", [corpus], force=False)
    assert list(tmp_path.iterdir()) == [corpus]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_read_is_never_replaced(tmp_path: Path, corpus: Path, force: bool) -> None:
    """Not by the table nor by its manifest, under whatever name, not even by force."""
    (tmp_path / "link.lcs").symlink_to(corpus)
    os.link(corpus, tmp_path / "chats.json")
    for name in ("chats.jsonl", "link.lcs", "chats.lcs"):
        with pytest.raises(TableError, match="would take the place of a file that is read"):
            check_output(tmp_path / name, [corpus], force=force)


def test_somebody_elses_file_needs_force(tmp_path: Path, corpus: Path) -> None:
    """A table without a manifest, or another JSON under the manifest's name."""
    for name in ("notes.lcs", "notes.json"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(TableError, match="is there, and is no table that was built here") as caught:
            check_output(tmp_path / "notes.lcs", [corpus], force=False)
        assert "--force" in caught.value.fix
        check_output(tmp_path / "notes.lcs", [corpus], force=True)
        (tmp_path / name).unlink()


def test_a_table_of_ours_is_replaced(tmp_path: Path, corpus: Path, build: Build) -> None:
    """So that a weekly build needs no force."""
    built = build()
    shutil.copy(built.path, tmp_path / "week.lcs")
    shutil.copy(manifest_path(built.path), tmp_path / "week.json")
    check_output(tmp_path / "week.lcs", [corpus], force=False)


def test_names_that_cannot_be(tmp_path: Path, corpus: Path) -> None:
    """The manifest's own, a folder's, and one in a folder that is not there."""
    with pytest.raises(TableError, match="name of its manifest"):
        check_output(tmp_path / "table.json", [corpus], force=True)
    (tmp_path / "folder.lcs").mkdir()
    with pytest.raises(TableError, match="is a folder"):
        check_output(tmp_path / "folder.lcs", [corpus], force=True)
    with pytest.raises(TableError, match="cannot be used") as caught:
        check_output(tmp_path / "none" / "x.lcs", [corpus], force=False)
    assert "No such file" in caught.value.checked[0]


@pytest.mark.parametrize("name", ["table.lcs", "table.json", "link.lcs"])
def test_what_is_no_file_is_not_replaced_by_force(tmp_path: Path, corpus: Path, name: str) -> None:
    """A pipe, as a device would be: under the table's name, its manifest's, or behind a link."""
    os.mkfifo(tmp_path / name.replace("link", "pipe"))
    (tmp_path / "link.lcs").symlink_to("pipe.lcs")
    with pytest.raises(TableError, match="no regular file"):
        check_output(tmp_path / name.replace("json", "lcs"), [corpus], force=True)


def test_a_link_to_nowhere_is_somebody_elses(tmp_path: Path, corpus: Path) -> None:
    """A disk that is not mounted: the link would be gone, and the table on the wrong disk."""
    (tmp_path / "chats.lcs").symlink_to(tmp_path / "disk" / "chats.lcs")
    with pytest.raises(TableError, match="is no table that was built here"):
        check_output(tmp_path / "chats.lcs", [corpus], force=False)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        (".", "is a folder"),
        ("none/../x.lcs", "cannot be used"),
        ("n" * 250 + ".lcs", "cannot be used"),
        ("n" * 300 + ".lcs", "cannot be used"),
    ],
)
def test_names_that_would_fail_at_the_end_fail_at_once(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, name: str, cause: str
) -> None:
    """The temporary file's longer name counts, and a folder is looked at as it is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=cause):
        check_output(Path(name), [corpus], force=True)
