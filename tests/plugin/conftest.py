"""A small project with the cells of the hand-built model, run by pytest inside pytest."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "bench" / "test_cells.py"
GATES = ROOT / "gates"

MATRIX = """
version: 1
warmup: "the model"
hang_after_s: 3
models:
  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}
configs:
  none: {}
  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}
  ngram-cache: {types: [ngram-cache]}
prompt_sets:
  words: {path: words.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 48}
"""
# What the hand-built model says after the last two words of the first prompt begins with those before them,
# so that ngram-cache has something to draft; it learns only from a prompt longer than all that came before.
SAID = (
    "time with fast more test often answer after before large where without because test under of with token "
    "layer small time reject than less"
)
PROMPTS = """
set: words
system: ""
prompts:
  - {id: word-en, kind: en, messages: [{role: user, content: " SAID model token"}]}
  - {id: word-ru, kind: ru, messages: [{role: user, content: " модель токен"}]}
""".replace("SAID", SAID)

ONCE = ("-p", "no:cacheprovider", "--ngram-repeats=0")


class Project:
    """A folder with `bench/`, and how to run pytest in it."""

    def __init__(self, pytester: pytest.Pytester, cache: Path) -> None:
        self.pytester = pytester
        self.cache = cache
        self.path = pytester.path
        self.bench = self.path / "bench"
        self.bench.mkdir()
        shutil.copy(CELLS, self.bench)
        self.matrix = self.bench / "matrix.yaml"
        self.matrix.write_text(MATRIX, encoding="utf-8")
        (self.bench / "words.yaml").write_text(PROMPTS, encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        """Change the matrix."""
        text = self.matrix.read_text(encoding="utf-8")
        assert old in text
        self.matrix.write_text(text.replace(old, new), encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        """Return the command line of `pytest bench` for a process that a test interrupts."""
        return [sys.executable, "-m", "pytest", "bench", *ONCE, *options]

    def run(self, *options: str) -> pytest.RunResult:
        """Run `pytest bench` in a process of its own; the host's load does not change what it sends."""
        once = list(ONCE)
        if not any(option.startswith("--ngram-report") for option in options):
            once.append("--ngram-report=none")  # seconds for each of hundreds of runs
        return self.pytester.runpytest_subprocess("bench", *once, *options)

    def measure(self, *options: str, exit_code: int = 0) -> dict[str, Any]:
        """Run `pytest bench`, and return the JSON that it saved."""
        saved = self.path / "run.json"
        saved.unlink(missing_ok=True)
        result = self.run("--benchmark-quiet", f"--benchmark-json={saved}", *options)
        assert result.ret == exit_code, result.stdout.str()
        data: dict[str, Any] = json.loads(saved.read_text())
        return data

    @property
    def journal(self) -> Path:
        """The only journal there is."""
        (path,) = (self.path / ".ngram").glob("journal-*.jsonl")
        return path


@pytest.fixture
def project(session_cache: Path, pytester: pytest.Pytester) -> Project:
    """A project of its own. Models and hashes are the session's; tables are built anew by each test."""
    shutil.rmtree(session_cache / "tables", ignore_errors=True)
    return Project(pytester, session_cache)


class GateProject:
    """A project with the gates of the hand-built model, `none` and `mtp1`."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.gates = project.path / "gates"
        shutil.copytree(GATES, self.gates, ignore=shutil.ignore_patterns("golden", "__pycache__"))
        project.edit("  ngram-cache: {types: [ngram-cache]}\n", "")
        project.edit("hang_after_s: 3", "hang_after_s: 60")

    def run(self, *options: str, tests: str = "gates") -> pytest.RunResult:
        return self.project.pytester.runpytest_subprocess(tests, "-p", "no:cacheprovider", *options)


@pytest.fixture
def gates(project: Project) -> GateProject:
    """A project that has gates too."""
    return GateProject(project)
