"""A model in parts is put together once, whole, and checked."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from pytest_ngram.errors import ModelError
from pytest_ngram.measure.parts import join

WHOLE = b"GGUF" + bytes(range(256)) * 9
SHA256 = hashlib.sha256(WHOLE).hexdigest()


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Three pieces, cut anywhere."""
    cuts = [0, 7, 1000, len(WHOLE)]
    paths = [tmp_path / f"m.gguf.part0{i}" for i in range(3)]
    for path, begin, end in zip(paths, cuts[:-1], cuts[1:], strict=True):
        path.write_bytes(WHOLE[begin:end])
    return paths


def test_the_parts_make_the_file(parts: list[Path], tmp_path: Path) -> None:
    """The bytes of all parts in order, under a name that says what it is; asked again, nothing is written."""
    made = join(parts, tmp_path / "cache", SHA256)
    assert made.read_bytes() == WHOLE
    assert made.name.startswith("m-")
    assert made.suffix == ".gguf"
    before = made.stat().st_mtime_ns
    assert join(parts, tmp_path / "cache", SHA256) == made
    assert made.stat().st_mtime_ns == before


def test_other_parts_or_another_order_are_another_file(parts: list[Path], tmp_path: Path) -> None:
    """The name depends on what the parts hold, so a changed part is never answered with the old file."""
    made = join(parts, tmp_path / "cache")
    assert join([parts[0], parts[2], parts[1]], tmp_path / "cache") != made
    parts[1].write_bytes(b"changed")
    changed = join(parts, tmp_path / "cache")
    assert changed != made
    assert b"changed" in changed.read_bytes()


def test_a_file_that_was_damaged_is_put_together_anew(parts: list[Path], tmp_path: Path) -> None:
    """The cache is checked at every call; with or without its sidecar the file is whole afterwards."""
    made = join(parts, tmp_path / "cache")
    made.write_bytes(b"GGUF, cut")
    assert join(parts, tmp_path / "cache").read_bytes() == WHOLE
    made.with_suffix(".json").write_text("{")
    assert join(parts, tmp_path / "cache").read_bytes() == WHOLE


def test_another_hash_than_stated_is_refused(parts: list[Path], tmp_path: Path) -> None:
    """Parts in the wrong order or of another version never become a file; one made before is refused too."""
    with pytest.raises(ModelError, match="do not make the file"):
        join([parts[0], parts[2], parts[1]], tmp_path / "cache", SHA256)
    assert not list((tmp_path / "cache").glob("*.gguf"))
    join(parts, tmp_path / "cache")
    with pytest.raises(ModelError, match="do not make the file") as caught:
        join(parts, tmp_path / "cache", "0" * 64)
    assert f"sha256 {SHA256}" in caught.value.checked


def test_a_missing_part_is_named(parts: list[Path], tmp_path: Path) -> None:
    """The error names the part, and nothing is written."""
    parts[1].unlink()
    with pytest.raises(ModelError, match="1 of the model's 3 parts are missing") as caught:
        join(parts, tmp_path / "cache")
    assert caught.value.checked == (str(parts[1]),)
    assert not (tmp_path / "cache").exists()


def test_shards_are_no_parts(parts: list[Path], tmp_path: Path) -> None:
    """Files that are GGUF each, put end to end, would make a file that ends too late: told what to do."""
    parts[1].write_bytes(b"GGUF" + b"\3\0\0\0")
    with pytest.raises(ModelError, match="GGUF files of their own") as caught:
        join(parts, tmp_path / "cache")
    assert "path:" in caught.value.fix


def test_a_first_part_that_stands_later_is_told(parts: list[Path], tmp_path: Path) -> None:
    """What begins as a GGUF file comes first: a list in another order is an error that names the part."""
    with pytest.raises(ModelError, match="in the wrong order") as caught:
        join([parts[1], parts[0], parts[2]], tmp_path / "cache")
    assert str(parts[0]) in caught.value.checked[0]


def test_a_folder_that_cannot_be_used_is_told(parts: list[Path], tmp_path: Path) -> None:
    """A cache that is a file: an error with its path, not a traceback."""
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ModelError, match="cannot be put together") as caught:
        join(parts, tmp_path / "cache")
    assert str(tmp_path / "cache") in caught.value.checked[0]


def test_a_full_disk_leaves_nothing_behind(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was half written is removed, and the error says how much room there is."""

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device", "cache")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ModelError) as caught:
        join(parts, tmp_path / "cache")
    assert "bytes free" in caught.value.checked[1]
    monkeypatch.undo()
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix in {".gguf", ".tmp"}]
    assert join(parts, tmp_path / "cache").read_bytes() == WHOLE


def test_two_that_ask_at_once_get_one_whole_file(parts: list[Path], tmp_path: Path) -> None:
    """One writes, the other waits for it: both get the same file, whole."""
    made: list[bytes] = []
    both = [
        threading.Thread(target=lambda: made.append(join(parts, tmp_path / "c").read_bytes())) for _ in "ab"
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert made == [WHOLE, WHOLE]
