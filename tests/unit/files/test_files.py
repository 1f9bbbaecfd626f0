"""Whole files and locks: a reader never sees half a file, and one process works at a time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import time
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


def hold(path: Path, seconds: float) -> None:
    with locked(path, 5.0):
        path.with_suffix(".held").touch()
        time.sleep(seconds)


@pytest.fixture
def holder(tmp_path: Path) -> multiprocessing.Process:
    """Another process that holds the lock."""
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(tmp_path / "lock", 60.0))
    process.start()
    while not (tmp_path / "lock").with_suffix(".held").exists() and process.is_alive():
        time.sleep(0.01)
    return process


def test_a_lock_waits_and_gives_up(tmp_path: Path, holder: multiprocessing.Process) -> None:
    """While another process holds it, waiting ends with an error after the time allowed."""
    with pytest.raises(TimeoutError, match="another process has held"), locked(tmp_path / "lock", 0.1):
        raise AssertionError
    holder.kill()
    holder.join()


def test_a_lock_ends_with_its_process(tmp_path: Path, holder: multiprocessing.Process) -> None:
    """A killed holder does not lock others out."""
    holder.kill()
    holder.join()
    with locked(tmp_path / "lock", 5.0):
        pass
