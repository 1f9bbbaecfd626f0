"""Two runs on one host: both are told."""

from __future__ import annotations

from pathlib import Path

from pytest_ngram.measure.alone import Alone


def test_both_runs_are_told(tmp_path: Path) -> None:
    """The second at once, the first when it ends; a later run hears nothing of either."""
    said: dict[str, list[str]] = {"first": [], "second": [], "third": []}
    first, second, third = (Alone(tmp_path / "cache" / "lock", said[name].append) for name in said)
    first.enter()
    second.enter()
    assert [len(texts) for texts in said.values()] == [0, 1, 0]
    second.leave()
    first.leave()
    first.leave()
    assert [len(texts) for texts in said.values()] == [1, 1, 0]
    assert "meanwhile" in said["first"][0]
    third.enter()
    third.leave()
    assert said["third"] == []


def test_a_mark_of_a_run_that_was_killed_is_nobodys(tmp_path: Path) -> None:
    """A mark that is there before a run begins was not left for it."""
    said: list[str] = []
    (tmp_path / "lock.second").touch()
    alone = Alone(tmp_path / "lock", said.append)
    alone.enter()
    alone.leave()
    assert said == []
