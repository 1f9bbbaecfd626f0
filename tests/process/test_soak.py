"""A short soak: servers are killed, stopped and robbed while cells are measured on them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[1] / "soak" / "soak.py"


def test_every_cell_has_an_outcome_whatever_happens_to_its_server(tmp_path: Path) -> None:
    """No lost cell, no orphan, no wrong text, an end, and a resume that completes."""
    command = [sys.executable, str(SOAK), "--short", "--engines=embedded", "--seed=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every promise kept" in done.stdout
