"""One run of `pytest bench` under torment, and what must be true after it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from tormentor import Tormentor

from pytest_ngram.measure import journal
from pytest_ngram.record import Record, from_builtins, run_from_builtins

ROOT = Path(__file__).parents[2]
# A run of 24 short cells of which each hangs, dies or starts anew takes less; what takes longer does not end.
LONGEST_S = 300.0

MATRIX = """
version: 1
warmup: "the model"
hang_after_s: 2
models:
  tiny:
    generate: {target: 0.7}
    flags: -c 4096 -t 1
    abstains: {ngram-cache: this model's prompts hold nothing twice}
configs:
  none: {}
  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}
  ngram-cache: {types: [ngram-cache]}
prompt_sets:
  words: {path: words.yaml}
profiles:
  smoke: {blocks: 2, n_predict: 1200}
  short: {blocks: 1, n_predict: 1200}
  long: {blocks: 6, n_predict: 1200}
"""
PROMPTS = """
set: words
system: ""
prompts:
  - {id: word-en, kind: en, messages: [{role: user, content: " model token"}]}
  - {id: word-ru, kind: ru, messages: [{role: user, content: " модель токен"}]}
  - {id: code-py, kind: code, messages: [{role: user, content: " def return"}]}
"""


class Round:
    """A run in a folder of its own.

    Args:
        folder: to work in.
        cache: where its models are, by which its servers are told from others.
        options: more options of pytest.
    """

    def __init__(self, folder: Path, cache: Path, options: Sequence[str]) -> None:
        self._folder = folder
        self._cache = cache
        self._options = list(options)
        self._popen: subprocess.Popen[bytes] | None = None
        self._began = time.monotonic()
        self._problems: list[str] = []
        self.wall_s = 0.0
        self.outcomes: Counter[str] = Counter()
        bench = folder / "bench"
        bench.mkdir()
        shutil.copy(ROOT / "bench" / "test_cells.py", bench)
        (bench / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
        (bench / "words.yaml").write_text(PROMPTS, encoding="utf-8")

    @contextmanager
    def tormented_by(self, tormentor: Tormentor) -> Iterator[None]:
        """Start the run and the tormentor, and end the tormentor."""
        self._popen = self._start("run", f"--ngram-journal={self._journal}")
        tormentor.start()
        try:
            yield
        finally:
            tormentor.end()
            end(self._popen)

    def wait(self) -> None:
        """Wait until the run has ended, or end it and note that it did not."""
        assert self._popen is not None
        try:
            self._popen.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            self._problems.append(f"the run did not end within {LONGEST_S:g} s")
            end(self._popen)
        self.wall_s = time.monotonic() - self._began

    def servers(self) -> list[psutil.Process]:
        """The servers that the run has started and that live."""
        found: list[psutil.Process] = []
        with suppress(psutil.Error):
            if self._popen is not None and self._popen.poll() is None:
                for child in psutil.Process(self._popen.pid).children(recursive=True):
                    with suppress(psutil.Error):
                        if self._is_server(child):
                            found.append(child)
        return found

    def broken(self) -> list[str]:
        """Return the promises that the tormented run has broken."""
        assert self._popen is not None
        problems = [*self._problems, *self._left_over()]
        code = self._popen.returncode
        saved = self._saved("run")
        if saved is None:
            return [*problems, f"no JSON was saved; exit code {code}"]
        records = saved_records(saved)
        self.outcomes = Counter(record.outcome.status for record in records)
        kept = {record.cell: record for record in journal.read(self._journal).cells}
        return [
            *problems,
            *cells_missing(saved, records),
            *wrong_outcomes(records),
            *(
                ["the journal has other cells than the JSON"]
                if set(kept) != {r.cell for r in records}
                else []
            ),
            *([f"exit code {code}"] if code != (1 if failed(records) else 0) else []),
        ]

    def resumed(self) -> list[str]:
        """Complete the run in peace, and return what is missing then."""
        if not self._journal.exists():
            return ["there is no journal to go on with"]
        peaceful = self._start("resumed", f"--ngram-resume={self._journal}")
        try:
            code = peaceful.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            return [f"resumed: the run did not end within {LONGEST_S:g} s"]
        finally:
            end(peaceful)
        saved = self._saved("resumed")
        if saved is None:
            return [f"resumed: no JSON was saved; exit code {code}"]
        records = saved_records(saved)
        problems = [*cells_missing(saved, records), *wrong_outcomes(records), *self._left_over()]
        problems += [f"{record.cell} is {record.outcome.status}" for record in failed(records)]
        problems += [f"exit code {code}"] if code else []
        return [f"resumed: {problem}" for problem in problems]

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder)

    @property
    def _journal(self) -> Path:
        return self._folder / "journal.jsonl"

    def _start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pytest", "bench", "-q", "-p", "no:cacheprovider", *self._options]
        command += ["--ngram-load-deadline=6", "--benchmark-quiet", f"--benchmark-json={name}.json", *more]
        env = {**os.environ, "PYTEST_NGRAM_CACHE": str(self._cache)}
        with (self._folder / f"{name}.out").open("wb") as out:
            return subprocess.Popen(
                command, cwd=self._folder, env=env, stdout=out, stderr=out, start_new_session=True
            )

    def _saved(self, name: str) -> dict[str, Any] | None:
        path = self._folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() and path.stat().st_size else None

    def _is_server(self, process: psutil.Process) -> bool:
        words = process.cmdline()
        return "-m" in words and any(word.startswith(str(self._cache)) for word in words)

    def _left_over(self) -> list[str]:
        """Say which processes of the run still live, whoever their parent is now."""
        foreign = {child.pid for child in psutil.Process().children(recursive=True)}
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid not in foreign and self._is_server(process):
                    found.append(f"process {process.pid} is left, {process.status()}")
        return found


def end(run: subprocess.Popen[bytes]) -> None:
    """End a run that still goes on; its servers end with it."""
    run.kill()
    run.wait()


def saved_records(saved: dict[str, Any]) -> list[Record]:
    """Return the records of all cells of a saved JSON, the failed ones too."""
    good = [from_builtins(benchmark["extra_info"]["ngram"]) for benchmark in saved["benchmarks"]]
    return [*good, *run_from_builtins(saved["ngram"]).failed_cells]


def failed(records: Sequence[Record]) -> list[Record]:
    """Return those whose outcome is not ok."""
    return [record for record in records if record.outcome.status != "ok"]


def cells_missing(saved: dict[str, Any], records: Sequence[Record]) -> list[str]:
    """Every planned cell has exactly one outcome."""
    planned = run_from_builtins(saved["ngram"]).run.planned_cells
    cells = {record.cell for record in records}
    if len(cells) == len(records) == planned > 0:
        return []
    return [f"{planned} cells were planned, {len(records)} have an outcome, {len(cells)} of them different"]


def wrong_outcomes(records: Sequence[Record]) -> list[str]:
    """No outcome is a fault of the harness, each has a reason, and each good cell the text of its prompt."""
    problems = [
        f"{record.cell} is {record.outcome.status}: {record.outcome.reason}"
        for record in failed(records)
        if record.outcome.status == "error" or not record.outcome.reason
    ]
    texts: dict[str, set[str]] = {}
    for record in records:
        if record.outcome.status == "ok":
            texts.setdefault(record.cell.prompt, set()).update(r.text_sha256 for r in record.rounds)
    problems += [f"{prompt} has {len(found)} texts" for prompt, found in texts.items() if len(found) > 1]
    return problems
