"""Compiled or not, the drafters do the same; and machine code is kept for the very sources it came from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_ngram
from pytest_ngram.replay import kernels
from pytest_ngram.replay.kernels import keep_kernels

# all types in one stack, several requests, rejections with and without a replay, a table, every luck
SCRIPT = """
import json, sys
if sys.argv[1] == "plain":
    sys.modules["numba"] = None
import numpy as np
from pytest_ngram.drafting.compiled import COMPILED
from pytest_ngram.drafting.counts import new_counts, read_table
from pytest_ngram.drafting.lookup_stats import lookup_stats
from pytest_ngram.drafting.policy import DEFAULTS, parse
from pytest_ngram.drafting.slot import Request, Slot

dice = np.random.default_rng(7)
text = dice.integers(0, 4, 600)
for at in range(100, 500, 50):
    text[at : at + 30] = text[at - 60 : at - 30]
static = new_counts(100)
keys = np.array([[a, b, -1, -1] for a in range(4) for b in range(4)], np.int64)
read_table(static, keys, np.arange(17), dice.integers(0, 4, 16), dice.integers(1, 9, 16))
numbers = {
    "ngram-mod": "n_match=2,n_min=1,n_max=5",
    "ngram-cache": "n_draft=4",
    "prompt-lookup": "n=3,min=2,max=6",
}
found = []
for name in DEFAULTS:
    for variant in ("", "@documented"):
        for restores in (False, True):
            policy = parse(f"{name}:{numbers.get(name, 'size_n=2,size_m=3')}{variant}")
            slot = Slot(policy, longest=300, total=900, restores=restores, static=static)
            for begin in (0, 200, 100):
                tokens = text[begin : begin + 300]
                done = slot.replay(Request(tokens, 80, 220, False))
                found.append([str(policy), done.steps.tolist(), done.ties, done.undefined])
for luck in range(3):
    stats = lookup_stats(text, n_ctx=64, n_draft=5, static=static, luck=luck)
    found.append([stats.by_chunk.tolist(), stats.ties, stats.undefined])
print(json.dumps({"compiled": COMPILED, "found": found}))
"""

FOLDER = """
import sys
from pathlib import Path
from pytest_ngram.replay import kernels
assert sys.argv[1] in kernels.__file__
print(kernels.keep_kernels(Path(sys.argv[1])))
"""


def answers(how: str, tmp_path: Path) -> dict[str, object]:
    env = {**os.environ, "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(tmp_path))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_numba_and_plain_python_give_the_same(tmp_path: Path) -> None:
    """Every type, as built and as documented, step by step, with ties and undefined reads."""
    compiled, plain = answers("compiled", tmp_path), answers("plain", tmp_path)
    assert (compiled["compiled"], plain["compiled"]) == (True, False)
    assert compiled["found"] == plain["found"]
    drafts = [steps for _policy, steps, *_ in compiled["found"][:-3]]  # type: ignore[index]
    assert sum(map(bool, drafts)) > len(drafts) // 2  # not equal because nothing was drafted


def test_the_folder_is_that_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sources have one folder; a byte changed in any of them, or another numba, has another."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    folder = keep_kernels(tmp_path)
    assert folder.parent == tmp_path
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert keep_kernels(tmp_path) == folder
    monkeypatch.setattr(kernels, "_numba_version", lambda: "0.0")
    assert keep_kernels(tmp_path) != folder


def test_a_changed_source_has_another_folder(tmp_path: Path) -> None:
    """Numba looks at a kernel's own file only: what changed in one that it calls shows in the folder."""
    copy = tmp_path / "pytest_ngram"
    shutil.copytree(
        Path(pytest_ngram.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "_data")
    )

    def folder() -> str:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", FOLDER, str(tmp_path)]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    before = folder()
    assert folder() == before
    changed = copy / "drafting" / "counts.py"
    changed.write_text(changed.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert folder() != before
