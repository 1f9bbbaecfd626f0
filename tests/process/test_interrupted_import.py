"""Ctrl-C while a command still imports: it ends as one that was stopped, whatever the import makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What numpy's C code does of an interrupt: it drops it, and says that something else could not be imported.
DROPPED = """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)
except KeyboardInterrupt:
    pass
raise ImportError("could not import module datetime")
"""
PASSED_ON = "os.kill(os.getpid(), signal.SIGINT); time.sleep(30)"
BROKEN = 'raise ImportError("could not import module datetime")'


def with_numpy(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a command that needs numpy, where importing it runs `code`."""
    (folder / "numpy.py").write_text(f"import os, signal, time\n{code}\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest_ngram.cli", "table", "info", "no.lcs"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("code", [DROPPED, PASSED_ON], ids=["dropped", "passed on"])
def test_ctrl_c_during_an_import(tmp_path: Path, code: str) -> None:
    """One line and exit code 130: no page of advice on how to install numpy."""
    done = with_numpy(tmp_path, code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped by Ctrl-C\n")


def test_an_import_that_is_broken(tmp_path: Path) -> None:
    """Without Ctrl-C an ImportError is what it says, with all of its traceback."""
    done = with_numpy(tmp_path, BROKEN)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "stopped" not in done.stderr
