"""What the harness itself costs, as figures of one run.

Runs the hand-built model's cells and prints, for each goal, what was measured and whether it is met:

* session wall - server loads - request walls <= 0.5 s + 50 ms per cell + 2 % of the session
* `pytest-ngram --help` <= 0.2 s
* the plugin adds <= 30 ms to `pytest --version --version` in an unrelated project
* the embedded server ends <= 0.3 s after it is told to
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from goals import verdict

from pytest_ngram.engine import process
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

ROOT = Path(__file__).parent.parent
MATRIX = ROOT / "bench" / "matrix.yaml"
REPEATS = 11


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tiny-moe,deep-moe", help="models of bench/matrix.yaml")
    models = parser.parse_args().models
    met = [session_cost(models), help_cost(), plugin_cost(), stop_cost()]
    return 0 if all(met) else 1


def session_cost(models: str) -> bool:
    """Measure the cells twice, so that generated models are in the cache, and account for the second run."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "run.json"
        # the root is the folder too: logs and whatever else a run leaves go with it
        command = ["pytest", "bench", "-q", f"--rootdir={folder}", f"--ngram-matrix={MATRIX}"]
        command += [f"--ngram-models={models}", f"--benchmark-json={saved}"]
        for number in range(2):
            begin_s = time.perf_counter()
            journal = f"--ngram-journal={folder}/journal-{number}.jsonl"
            subprocess.run([*command, journal], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            wall_s = time.perf_counter() - begin_s
        data = json.loads(saved.read_text())
    run = data["ngram"]["run"]
    loads_s = sum(start["load_s"] for start in run["starts"])
    warmups_s = sum(start["warmup_s"] for start in run["starts"])
    requests_s = warmups_s + sum(
        round_["wall_s"] for bench in data["benchmarks"] for round_ in bench["extra_info"]["ngram"]["rounds"]
    )
    cells = run["measured_cells"]
    print(f"cells {cells}, starts {len(run['starts'])}")
    print(f"process wall {wall_s:.2f} s, session wall {run['wall_s']:.2f} s")
    print(f"server loads {loads_s:.2f} s, requests {requests_s:.2f} s, of which warm-ups {warmups_s:.2f} s")
    harness_s = wall_s - loads_s - requests_s
    return verdict("harness", harness_s, 0.5 + 0.05 * cells + 0.02 * wall_s, "s", digits=3)


def help_cost() -> bool:
    """Measure the start of the command line."""
    return verdict("pytest-ngram --help", _median_s(["pytest-ngram", "--help"]), 0.2, "s", digits=3)


def plugin_cost() -> bool:
    """Alternate with and without the plugin in an empty folder, and take the difference of the medians."""
    version = ["pytest", "--version", "--version"]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (_seconds([*version, "-p", "no:ngram"], folder), _seconds(version, folder))
            for _ in range(REPEATS)
        ]
    without_s, with_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"pytest --version --version: {without_s:.3f} s without, {with_s:.3f} s with the plugin")
    return verdict("plugin", with_s - without_s, 0.03, "s", digits=3)


def stop_cost() -> bool:
    """Start the small model's server, and take the time of its end."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        argv = server_argv(generate(HandBuiltSpec(), Path(folder)), model_flags=["-t", "1"])
        for _ in range(REPEATS):
            server = process.start(argv, log_path=Path(folder) / "server.log")
            begin_s = time.perf_counter()
            server.stop()
            times.append(time.perf_counter() - begin_s)
    return verdict("end of a server", statistics.median(times), 0.3, "s", digits=3)


def _median_s(command: Sequence[str]) -> float:
    return statistics.median(_seconds(command, None) for _ in range(REPEATS))


def _seconds(command: Sequence[str], folder: str | None) -> float:
    begin_s = time.perf_counter()
    subprocess.run([*command], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin_s


if __name__ == "__main__":
    sys.exit(main())
