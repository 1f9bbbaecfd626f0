"""What watching the machine costs: the share of a core that the probes take while a server answers.

A server of the small hand-built model is asked for some seconds, with the probes and without in turn. Printed
are the sampling thread's own processor time, the time of the readings before and after a request, and what
all of it adds to this program's processor time. The goal is 1 % of a core for what runs while a request runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pytest_ngram.engine import process
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.measure.host import Probe, this_machine
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options.settings import cache_folder

GOAL = 0.01
REQUEST = CompletionRequest(
    prompt=(300, 301), n_predict=1000, temperature=0, seed=1, extra={"ignore_eos": True}
)


def main() -> int:
    """Print each figure; the exit code is 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="with the probes and without (default: 5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each (default: 3)")
    arguments = parser.parse_args()
    model = generate(HandBuiltSpec(), cache_folder() / "models")
    with tempfile.TemporaryDirectory() as folder:
        argv = server_argv(model, model_flags=["-t", "1"])
        with process.start(argv, log_path=Path(folder) / "server.log") as server:
            return report(server, arguments.rounds, arguments.seconds)


def report(server: process.EngineProcess, rounds: int, seconds: float) -> int:
    """Ask in turn and print."""
    probe = Probe(server.pid, *this_machine())
    shares, samples, readings_ms, added = [], [], [], []
    with Client(server.url) as client:

        def ask() -> None:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                client.completion(REQUEST)

        for _ in range(rounds):
            alone = own_share(ask)
            begin_s, own_s = time.monotonic(), time.process_time()
            _, span = probe.watch(ask)
            added.append((time.process_time() - own_s) / (time.monotonic() - begin_s) - alone)
            shares.append(span.sampled.cost_s / span.seconds)
            samples.append(span.sampled.samples / span.seconds)
            readings_ms.append(1000 * readings_s(probe))
    share = median(shares)
    is_met = share <= GOAL
    print(f"sampling: {share:.2%} of a core at {median(samples):.1f} samples/s, goal {GOAL:.0%}", end="")
    print("" if is_met else ": MISSED")
    print(f"readings before and after a request, outside its time: {median(readings_ms):.2f} ms together")
    low, high = min(added), max(added)
    print(
        f"added to this program's processor time: {median(added):+.2%} of a core ({low:+.2%} to {high:+.2%})"
    )
    return 0 if is_met else 1


def own_share(work: Callable[[], None]) -> float:
    """This program's processor time by the time that the work takes."""
    begin_s, own_s = time.monotonic(), time.process_time()
    work()
    return (time.process_time() - own_s) / (time.monotonic() - begin_s)


def readings_s(probe: Probe) -> float:
    """The processor time of watching nothing: what is read before and after."""
    own_s = time.process_time()
    probe.watch(lambda: None)
    return time.process_time() - own_s


if __name__ == "__main__":
    sys.exit(main())
