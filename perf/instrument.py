"""Is the instrument true on this host? Checks a saved run against what is known of the hand-built model.

For each generated model of the matrix, from the JSON that `pytest bench --benchmark-json=RUN.json` wrote:

* the text of every config equals the model's rule, token for token
* mean acceptance over the word classes at n_max 1, against the dialled target
* OPS equals 1 / mean(predicted_ms / (predicted_n - 1))
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.spec import GenerateSpec
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.models.handbuilt import rule
from pytest_ngram.record import Record, RunFile, from_builtins, run_from_builtins, unpack_tokens
from pytest_ngram.verdict.summary import seconds_per_token

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Print each figure; the exit code is 1 if the instrument or the record is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a saved JSON of `pytest bench`")
    data = json.loads(parser.parse_args().run.read_text())
    records = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    run = run_from_builtins(data["ngram"])
    matrix = decode_matrix((ROOT / "bench" / "matrix.yaml").read_text(), "matrix.yaml")
    good = ops_is_tg(data["benchmarks"], records)
    for name, model in matrix.models.items():
        own = [record for record in records if record.cell.model == name]
        if model.generate is not None and own:
            good = text_is_the_rule(name, model.generate, own, run) and good
            good = acceptance_is_dialled(name, model.generate, own) and good
    return 0 if good else 1


def ops_is_tg(benchmarks: list[dict[str, dict[str, float]]], records: list[Record]) -> bool:
    """OPS as pytest-benchmark saved it against the definition of tg, worst cell."""
    worst = 0.0
    for bench, record in zip(benchmarks, records, strict=True):
        seconds = [value for round_ in record.rounds if (value := seconds_per_token(round_)) is not None]
        worst = max(worst, abs(bench["stats"]["ops"] * fmean(seconds) - 1))
    print(f"OPS against 1 / mean seconds per token: off by {worst:.2e} at most, {len(records)} cells")
    return worst <= 1e-3


def text_is_the_rule(name: str, spec: GenerateSpec, records: list[Record], run: RunFile) -> bool:
    """Every generated id against the rule, by config; sampled cells are left out."""
    prompts = {p.prompt: unpack_tokens(p.tokens) for p in run.prompts if p.model == name}
    known = rule(handbuilt_spec(spec))
    equal: dict[str, int] = defaultdict(int)
    wrong: dict[str, int] = defaultdict(int)
    for record in records:
        if record.cell.temperature != 0:
            continue
        for round_ in record.rounds:
            ids = unpack_tokens(round_.tokens or "")
            same = ids == known.continuation(prompts[record.cell.prompt], len(ids))
            (equal if same else wrong)[record.cell.config] += len(ids)
    for config in sorted(equal.keys() | wrong.keys()):
        print(
            f"{name} {config}: {equal[config]} tokens equal to the rule, {wrong[config]} in texts that differ"
        )
    return not wrong


def acceptance_is_dialled(name: str, spec: GenerateSpec, records: list[Record]) -> bool:
    """Mean over the prompts (one of each class, equal weight) of accepted / drafted at n_max 1."""
    by_prompt: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        if record.cell.config == "mtp1" and record.cell.temperature == 0:
            by_prompt[record.cell.prompt] += [(r.accepted or 0, r.drafted or 0) for r in record.rounds]
    if not by_prompt or spec.target is None:
        print(f"{name}: no mtp1 cell or no target, acceptance not checked")
        return True
    rates = {p: sum(a for a, _ in pairs) / sum(d for _, d in pairs) for p, pairs in by_prompt.items()}
    mean = fmean(rates.values())
    classes = ", ".join(f"{prompt} {rate:.3f}" for prompt, rate in rates.items())
    print(
        f"{name}: acceptance {mean:.3f}, dialled {spec.target}, off by {mean - spec.target:+.3f} ({classes})"
    )
    return abs(mean - spec.target) <= 0.05


if __name__ == "__main__":
    sys.exit(main())
