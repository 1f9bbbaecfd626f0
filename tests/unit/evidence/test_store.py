"""Evidence is made once, failures too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_ngram.errors import EngineError, ModelError, OptionError
from pytest_ngram.evidence.store import EvidenceStore, session_folder
from pytest_ngram.judge.types import Margin


def test_made_once_over_all_workers(tmp_path: Path) -> None:
    """The second to ask, in this process or another, gets what the first made."""
    made = []

    def make() -> dict[str, Margin]:
        made.append(1)
        return {"a": Margin(1, 2, 0.1)}

    first, other = EvidenceStore(tmp_path), EvidenceStore(tmp_path)
    for store in (first, first, other):
        assert store.once("m/none/margins", dict[str, Margin], make) == {"a": Margin(1, 2, 0.1)}
    assert made == [1]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (EngineError("it died", outcome="crash", checked=["a"], fix="b", log_tail=["c"]), "crash"),
        (ModelError("no file", checked=["a"], fix="b"), "ModelError"),
    ],
)
def test_a_failure_is_kept(tmp_path: Path, error: EngineError, outcome: str) -> None:
    """A server that died is not started again for the next gate; the error is the same for all."""
    tried = []

    def fail() -> int:
        tried.append(1)
        raise error

    for store in (EvidenceStore(tmp_path), EvidenceStore(tmp_path)):
        with pytest.raises(EngineError) as caught:
            store.once("x", int, fail)
        assert (caught.value.cause, caught.value.outcome) == (error.cause, outcome)
        assert caught.value.checked == ("a",)
    assert tried == [1]


def test_other_mistakes_are_not_kept(tmp_path: Path) -> None:
    """A fault of this program is raised as it is, and leaves nothing behind."""
    store = EvidenceStore(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.once("x", int, lambda: 1 // 0)
    assert store.once("x", int, lambda: 3) == 3


def test_like_names_are_not_mixed(tmp_path: Path) -> None:
    """Names that look the same as files are different values."""
    store = EvidenceStore(tmp_path)
    assert store.once("a/b_c", int, lambda: 1) == 1
    assert store.once("a_b/c", int, lambda: 2) == 2


def test_old_sessions_are_removed(tmp_path: Path) -> None:
    """A few sessions are kept for whoever wants to look; the folder does not grow for ever."""
    for i in range(9):
        (session_folder(tmp_path, f"s{i}") / "x").mkdir(parents=True)
    assert len(list(tmp_path.iterdir())) <= 4
    assert (tmp_path / "s8").is_dir()


def test_a_session_in_use_stays(tmp_path: Path) -> None:
    """A run that waits long for one answer keeps its evidence and logs, whatever runs begin meanwhile."""
    store = EvidenceStore(session_folder(tmp_path, "long"))
    assert store.once("x", int, lambda: 1) == 1
    os.utime(store.folder, (1, 1))
    for i in range(9):
        (session_folder(tmp_path, f"s{i}") / "x").mkdir(parents=True)
    assert store.folder.is_dir()
    del store
    os.utime(tmp_path / "long", (1, 1))
    session_folder(tmp_path, "next")
    assert not (tmp_path / "long").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The error says what is wrong with which folder, and how much room there is."""
    (tmp_path / "file").write_text("")
    store = EvidenceStore(tmp_path / "file" / "session")
    with pytest.raises(OptionError, match=r"cannot be kept: .*\n.*file: .*session\n.*folder: .*\n.*free"):
        store.once("x", int, lambda: 1)
