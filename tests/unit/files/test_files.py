"""Whole files and locks: a reader never sees half a file, and one process works at a time."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ngram.files import locked, remove_leftovers, replacing, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new content takes the place of the old one, readable by others, and nothing else is left."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, is_link: bool) -> None:
    """A pipe stands for all of them: a device that is renamed over is gone for the whole host."""
    pipe, path = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    path.symlink_to(pipe)
    with pytest.raises(OSError, match="no regular file"):
        write_whole(path if is_link else pipe, b"new")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert path.is_symlink()
    assert {each.name for each in tmp_path.iterdir()} == {"pipe", "link"}


def write_half(path: Path, error: BaseException) -> None:
    with replacing(path) as new:
        new.write_bytes(b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError()])
def test_a_failure_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    """Whatever goes wrong while writing, the old file stays as it was and no part of the new one does."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_half(path, error)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["fsync", "replace", "chmod"])
def test_a_failing_call_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Sync, rights and rename may fail too."""

    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="broken"):
        write_whole(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_one_stem_are_removed(tmp_path: Path) -> None:
    """Temporary files of this stem go; finished files and other stems stay."""
    names = ["a.lcs.x.tmp", "a.json.y.tmp", "a.lcs", "b.lcs.x.tmp"]
    for name in names:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lcs", "b.lcs.x.tmp"]


HOLD = """
import sys, time
from pathlib import Path
from pytest_ngram.files import locked

with locked(Path(sys.argv[1]), 5.0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_waits_and_gives_up(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """While another process holds it, waiting ends with an error after the time allowed."""
    with pytest.raises(TimeoutError, match="another process has held"), locked(tmp_path / "lock", 0.1):
        raise AssertionError


def test_a_lock_ends_with_its_process(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """A killed holder does not lock others out."""
    holder.kill()
    holder.wait()
    with locked(tmp_path / "lock", 5.0):
        pass
