"""Ready tables: what passes, what passes with a note, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.errors import TableError
from pytest_ngram.table.build import (
    BuiltTable,
    TableParams,
    info,
    load_table,
    manifest_path,
    table_record,
)
from pytest_ngram.table.format import verify

Build = Callable[..., BuiltTable]

VOCAB, N_VOCAB = "a" * 64, 256


def test_our_own_table_loads(build: Build) -> None:
    """A cached table passes as a ready one, without notes."""
    built = build()
    loaded = load_table(built.path, VOCAB, N_VOCAB)
    assert (loaded.table, loaded.manifest, loaded.notes) == (table_record(built.manifest), built.manifest, ())


def test_a_table_without_a_manifest_loads_with_a_note(build: Build) -> None:
    """Ids are checked against the size of the vocabulary, and what could not be checked is said."""
    path = build().path
    manifest_path(path).unlink()
    loaded = load_table(path, VOCAB, N_VOCAB)
    assert loaded.manifest is None
    assert len(loaded.notes) == 1
    assert "vocabulary could not be checked" in loaded.notes[0]
    with pytest.raises(TableError, match="outside the vocabulary of 50"):
        load_table(path, VOCAB, 50)


def test_high_counts_of_a_ready_table_get_a_note(build: Build) -> None:
    """A ready table near an overflow is usable, and its limit is told."""
    path = build(params=TableParams(count_cap=81)).path
    manifest_path(path).unlink()
    data = bytearray(path.read_bytes())
    data[24:28] = (82).to_bytes(4, "little")
    path.write_bytes(data)
    notes = load_table(path, VOCAB, N_VOCAB).notes
    assert "counts up to 82" in notes[-1]
    assert "261888 times" in notes[-1]


def test_another_vocabularys_table_is_refused(build: Build) -> None:
    """Both hashes are named: llama.cpp would load it without a word."""
    path = build().path
    with pytest.raises(TableError, match="another vocabulary") as caught:
        load_table(path, "b" * 64, N_VOCAB)
    assert "b" * 64 in caught.value.checked[0]
    assert VOCAB in caught.value.checked[1]


def test_a_changed_table_is_refused_and_not_rebuilt(build: Build) -> None:
    """Outside the cache nothing is repaired: a table that is not its manifest's is an error."""
    path = build().path
    data = path.read_bytes()
    path.write_bytes(data[:24] + b"\3" + data[25:])
    verify(path.read_bytes(), N_VOCAB)
    with pytest.raises(TableError, match="not the one that its manifest describes"):
        load_table(path, VOCAB, N_VOCAB)


def test_a_manifest_that_is_none_is_refused(build: Build) -> None:
    """Some other JSON beside the table is not taken for its manifest."""
    path = build().path
    manifest_path(path).write_text('{"keys": 3}')
    with pytest.raises(TableError, match="is no manifest") as caught:
        load_table(path, VOCAB, N_VOCAB)
    assert "missing required field" in caught.value.checked[0]


@pytest.mark.parametrize("read", [lambda path: load_table(path, VOCAB, N_VOCAB), info], ids=["load", "info"])
def test_a_missing_table_says_what_llama_cpp_would_do(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """The server would abort, so the error comes first."""
    with pytest.raises(TableError, match=r"x\.lcs is not there") as caught:
        read(tmp_path / "x.lcs")
    assert "SIGABRT" in caught.value.checked[1]


def test_info_describes_without_a_model(build: Build) -> None:
    """Facts, the drafting keys, and whether the manifest is of these bytes."""
    built = build()
    described = info(built.path)
    assert described.table == table_record(built.manifest)
    assert (described.drafting_keys, described.manifest_fits) == (built.manifest.drafting_keys, True)
    manifest_path(built.path).unlink()
    assert info(built.path).manifest_fits is None
