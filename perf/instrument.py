"""Is the instrument true on this host? Checks a saved run against what is known of the hand-built models.

For each generated model of the matrix, from the JSON that `pytest bench --benchmark-json=RUN.json` wrote:

* every cell ended well
* the text of every config equals the model's rule, token for token
* mean acceptance over the word classes at n_max 1, against the dialled target
* OPS equals 1 / mean(predicted_ms / (predicted_n - 1))
* a deep model dialled to 0.9 or more: the best n_max of MTP is at least 30 % faster than `none`
* a deep model dialled to 0.3 or less: every n_max of MTP is slower than `none`

A change of speed is the median over blocks; acceptance and speed are those of prompt set `instrument` at
temperature 0. A generated model that the run lacks is a failure: name those that it has with `--models`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.spec import GenerateSpec
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.models.handbuilt import rule
from pytest_ngram.record import Record, RunFile, from_builtins, run_from_builtins, unpack_tokens
from pytest_ngram.verdict.summary import seconds_per_token, summarise

ROOT = Path(__file__).parent.parent
PROMPT_SET = "instrument"
DEEP_LAYERS = 16  # from here a decode costs so much more than a draft that speed tells of acceptance
HIGH_TARGET, LOW_TARGET = 0.9, 0.3
GAIN_GOAL = 0.30
ACCEPTANCE_TOLERANCE = 0.05


def main() -> int:
    """Print each figure; the exit code is 1 if the instrument or the record is off."""
    matrix = decode_matrix((ROOT / "bench" / "matrix.yaml").read_text(encoding="utf-8"), "matrix.yaml")
    generated = {name: model.generate for name, model in matrix.models.items() if model.generate is not None}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a saved JSON of `pytest bench`")
    parser.add_argument(
        "--models", default=",".join(generated), help="models to check (default: %(default)s)"
    )
    arguments = parser.parse_args()
    data = json.loads(arguments.run.read_text(encoding="utf-8"))
    records = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    run = run_from_builtins(data["ngram"])
    met = [ops_is_tg(data["benchmarks"], records)]
    for name in arguments.models.split(","):
        own = [record for record in records if record.cell.model == name]
        met += model_is_true(name, generated[name], own, run)
    print("all met" if all(met) else f"{met.count(False)} of {len(met)} MISSED")
    return 0 if all(met) else 1


def model_is_true(name: str, spec: GenerateSpec, records: Sequence[Record], run: RunFile) -> list[bool]:
    """Check one model; one answer for each thing that is known of it."""
    failed = sum(record.cell.model == name for record in run.failed_cells)
    print(f"{name}: {len(records)} cells ended well, {failed} did not")
    measured = [r for r in records if r.cell.prompt_set == PROMPT_SET and r.cell.temperature == 0]
    met = [
        bool(records) and not failed,
        text_is_the_rule(name, spec, records, run),
        acceptance_is_dialled(name, spec, measured),
    ]
    if spec.layers >= DEEP_LAYERS and spec.target is not None:
        print_noise(name, measured)
        changes = median_changes(measured)
        if spec.target >= HIGH_TARGET:
            met.append(best_draft_wins(name, changes))
        elif spec.target <= LOW_TARGET:
            met.append(every_draft_loses(name, changes))
    return met


def ops_is_tg(benchmarks: Sequence[Mapping[str, Mapping[str, float]]], records: Sequence[Record]) -> bool:
    """OPS as pytest-benchmark saved it against the definition of tg, worst cell."""
    worst = 0.0
    for bench, record in zip(benchmarks, records, strict=True):
        seconds = [value for round_ in record.rounds if (value := seconds_per_token(round_)) is not None]
        worst = max(worst, abs(bench["stats"]["ops"] * fmean(seconds) - 1))
    met = worst <= 1e-3
    print(f"OPS against 1 / mean seconds per token: off by {worst:.2e}, {len(records)} cells{_missed(met)}")
    return met


def text_is_the_rule(name: str, spec: GenerateSpec, records: Sequence[Record], run: RunFile) -> bool:
    """Every generated id against the rule, by config; sampled cells are left out."""
    prompts = {p.prompt: unpack_tokens(p.tokens) for p in run.prompts if p.model == name}
    known = rule(handbuilt_spec(spec))
    equal: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for record in records:
        if record.cell.temperature != 0:
            continue
        for round_ in record.rounds:
            ids = unpack_tokens(round_.tokens or "")
            same = bool(ids) and ids == known.continuation(prompts[record.cell.prompt], len(ids))
            (equal if same else wrong)[record.cell.config] += len(ids)
    for config in sorted(equal.keys() | wrong.keys()):
        told = f"{equal[config]} tokens equal to the rule, {wrong[config]} in texts that differ"
        print(f"{name} {config}: {told}{_missed(not wrong[config])}")
    return bool(equal) and not wrong.total()


def acceptance_is_dialled(name: str, spec: GenerateSpec, records: Sequence[Record]) -> bool:
    """Mean over the prompts (one of each class, equal weight) of accepted / drafted at n_max 1."""
    by_prompt: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        if record.cell.config == "mtp1":
            by_prompt[record.cell.prompt] += [(r.accepted or 0, r.drafted or 0) for r in record.rounds]
    if spec.target is None:
        print(f"{name}: dialled by sigma, no acceptance was promised")
        return True
    if not by_prompt:
        print(f"{name}: no mtp1 cell of prompt set {PROMPT_SET}{_missed(False)}")
        return False
    rates = {p: sum(a for a, _ in pairs) / sum(d for _, d in pairs) for p, pairs in by_prompt.items()}
    off = fmean(rates.values()) - spec.target
    met = abs(off) <= ACCEPTANCE_TOLERANCE
    classes = ", ".join(f"{prompt} {rate:.3f}" for prompt, rate in rates.items())
    print(
        f"{name}: acceptance {spec.target + off:.3f}, dialled {spec.target}, off by {off:+.3f}{_missed(met)}"
    )
    print(f"{name}: by class {classes}")
    return met


def print_noise(name: str, records: Sequence[Record]) -> None:
    """How quiet the host was: changes of speed are to be read beside it."""
    for summary in summarise(records):
        noise = "unknown" if summary.noise is None else f"{summary.noise:.1%}"
        busy = f"{summary.contended} of {len(records)} cells were contended"
        print(f"{name}: first and last pass of none differ by up to {noise}; {busy}")


def median_changes(records: Sequence[Record]) -> dict[str, float]:
    """Speed of each MTP config against `none`, as a ratio - 1: the median over blocks."""
    by_block: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_block[record.cell.block].append(record)
    changes: dict[str, list[float]] = defaultdict(list)
    for own in by_block.values():
        for row in (row for summary in summarise(own) for row in summary.rows):
            if row.config.startswith("mtp") and row.change is not None:
                changes[row.config].append(row.change.value)
    return {config: median(values) for config, values in changes.items()}


def best_draft_wins(name: str, changes: Mapping[str, float]) -> bool:
    """The best n_max against the goal."""
    best = max(changes, key=lambda config: changes[config], default=None)
    met = best is not None and changes[best] >= GAIN_GOAL
    print(f"{name}: {_list(changes)}; best {best}, goal {GAIN_GOAL:+.0%} or more{_missed(met)}")
    return met


def every_draft_loses(name: str, changes: Mapping[str, float]) -> bool:
    """No n_max may be as fast as `none`."""
    met = bool(changes) and max(changes.values()) < 0
    print(f"{name}: {_list(changes)}; goal: all below 0{_missed(met)}")
    return met


def _list(changes: Mapping[str, float]) -> str:
    told = ", ".join(f"{config} {change:+.1%}" for config, change in sorted(changes.items()))
    return f"against none {told}" if told else "no MTP config beside none in any block"


def _missed(met: bool) -> str:
    return "" if met else ": MISSED"


if __name__ == "__main__":
    sys.exit(main())
