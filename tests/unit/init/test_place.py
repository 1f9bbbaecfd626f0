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


def test_folders_that_were_made_before_a_failure_are_removed(tmp_path: Path) -> None:
    """A name that is too long fails below two new folders: they are not left, since nothing was changed."""
    with pytest.raises(OptionError, match="nothing was changed"):
        place(tmp_path, {f"a/b/{'c' * 300}/d.txt": "1"})
    assert contents(tmp_path) == {}


def test_a_link_stays_a_link_and_a_mode_stays_as_it_is(tmp_path: Path) -> None:
    """What is replaced is the text: that of the file which a link leads to, for whom it was meant before."""
    (tmp_path / "shared.yaml").write_text("old")
    (tmp_path / "shared.yaml").chmod(0o640)
    (tmp_path / "matrix.yaml").symlink_to("shared.yaml")
    (tmp_path / "run.sh").write_text("old")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "later.yaml").symlink_to("not-yet.yaml")
    place(tmp_path, {"matrix.yaml": "new", "run.sh": "new", "later.yaml": "new"})
    assert (tmp_path / "matrix.yaml").readlink() == Path("shared.yaml")
    assert (tmp_path / "later.yaml").readlink() == Path("not-yet.yaml")
    assert {name: (tmp_path / name).read_text() for name in ("shared.yaml", "not-yet.yaml", "run.sh")} == {
        "shared.yaml": "new", "not-yet.yaml": "new", "run.sh": "new",
    }  # fmt: skip
    assert (tmp_path / "shared.yaml").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755


def test_a_failure_restores_links_and_modes(tmp_path: Path) -> None:
    """The last cannot be written: links, what they lead to, and modes are as before."""
    (tmp_path / "shared.yaml").write_text("old")
    (tmp_path / "shared.yaml").chmod(0o600)
    (tmp_path / "matrix.yaml").symlink_to("shared.yaml")
    (tmp_path / "later.yaml").symlink_to("not-yet.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(OptionError, match=r"loop\.yaml cannot be written"):
        place(tmp_path, {"matrix.yaml": "new", "later.yaml": "new", "loop.yaml": "new"})
    assert (tmp_path / "matrix.yaml").readlink() == Path("shared.yaml")
    assert (tmp_path / "loop.yaml").readlink() == Path("loop.yaml")
    assert (tmp_path / "shared.yaml").read_text() == "old"
    assert (tmp_path / "shared.yaml").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "not-yet.yaml").exists()
    assert (tmp_path / "later.yaml").is_symlink()
