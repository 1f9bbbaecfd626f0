"""A command whose reader has enough: `pytest-ngram doctor | head` ends as SIGPIPE ends a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def gone(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Type a command whose output nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest_ngram.cli", *words],
            cwd=cwd, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["all at the end", "each line as it comes"])
def test_nobody_reads(
    tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    """Exit code 141 and no traceback, whether the first line finds out or what is left at the end."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for words in (("model-info", str(model_path)), ("doctor", "--cache-dir", str(tmp_path / "cache"))):
        done = gone(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (141, ""), words


def test_an_error_is_told_all_the_same(tmp_path: Path) -> None:
    """What failed for another reason keeps its exit code and its lines: they are on standard error."""
    done = gone("model-info", "gone.gguf", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("ModelError: the model file does not exist")
