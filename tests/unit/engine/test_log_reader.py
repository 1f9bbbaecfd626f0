"""Read against recorded logs; the JSON beside each holds what `timings` and `/metrics` said of that run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.engine import decodes, log_reader

DATA = Path(__file__).with_name("data")
RUNS = sorted(path.stem for path in DATA.glob("*.log"))


def recorded(name: str) -> tuple[list[log_reader.RequestLog], dict[str, Any]]:
    lines = (DATA / f"{name}.log").read_text(encoding="utf-8").splitlines()
    return log_reader.requests(lines), json.loads((DATA / f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", RUNS)
def test_trace_agrees_with_timings_and_metrics(name: str) -> None:
    """Drafted, accepted, per position and verify steps of the trace are those of the server's counters."""
    logs, run = recorded(name)
    assert len(logs) == len(run["requests"])
    for log, want in zip(logs, run["requests"], strict=True):
        assert log.drafted == (want["draft_n"] or 0) == want["num_draft_tokens"]
        assert log.accepted == (want["draft_n_accepted"] or 0) == want["num_accepted"]
        assert log.verify_steps == want["num_drafts"]
        per_pos = log.accepted_per_pos
        assert per_pos + [0] * (len(want["accepted_per_pos"]) - len(per_pos)) == want["accepted_per_pos"]


@pytest.mark.parametrize("name", RUNS)
def test_decodes_add_up(name: str) -> None:
    """The server's count of decodes is the prompt's and all steps, replays among them."""
    logs, run = recorded(name)
    for log, want in zip(logs, run["requests"], strict=True):
        steps = decodes.steps(want["predicted_n"], log.accepted)
        prompt = decodes.prompt_decodes(want["prompt_n"], checkpoints=name.startswith("handbuilt"))
        assert prompt + steps == want["n_decode"]
        assert steps >= log.verify_steps + log.replays


@pytest.mark.parametrize("name", RUNS)
def test_closing_lines_are_read(name: str) -> None:
    """Times and tokens of prompt and generation, and acceptance where something was drafted."""
    logs, run = recorded(name)
    for log, want in zip(logs, run["requests"], strict=True):
        assert log.timings["prompt"].tokens == want["prompt_n"]
        assert log.timings["predicted"].tokens == want["predicted_n"]
        assert log.timings["predicted"].ms > 0
        assert (log.acceptance is None) == (want["draft_n"] is None)
        assert (log.rate_per_pos is None) == (want["draft_n"] is None)
        if log.acceptance is not None:
            assert (log.acceptance.accepted, log.acceptance.drafted) == (log.accepted, log.drafted)
            assert log.acceptance.mean_len == pytest.approx(1 + log.accepted / log.verify_steps, abs=0.005)


def test_replays_are_counted_apart() -> None:
    """The recorded replays: every refused tail on the hybrid model but one restored a checkpoint."""
    logs, _ = recorded("handbuilt-ngram-cache-table-replays")
    assert [(log.verify_steps, log.replays, log.accepted) for log in logs] == [(15, 15, 28), (15, 15, 28)]


@pytest.mark.parametrize("name", [name for name in RUNS if name.endswith("cache-table-replays")])
def test_statistics_count_replayed_tokens_again(name: str) -> None:
    """accepted(statistics) − replays = accepted(timings), summed over the server's life."""
    logs, _ = recorded(name)
    last = logs[-1].statistics["ngram-cache"]
    assert last.acc_tokens - sum(log.replays for log in logs) == sum(log.accepted for log in logs)
    assert last.gen_tokens == sum(log.drafted for log in logs)


def test_stack_has_statistics_of_each_type() -> None:
    """A stack's two types are told apart; together they drafted what the requests drafted."""
    logs, _ = recorded("handbuilt-stack-replays")
    statistics = logs[-1].statistics
    assert set(statistics) == {"draft-mtp", "ngram-simple"}
    assert sum(each.gen_tokens for each in statistics.values()) == sum(log.drafted for log in logs)


def test_statistics_line() -> None:
    """Every field of a full line."""
    line = (
        "0.03.853.654 I spec common_specu: statistics     ngram-simple: #calls(b,g,a) =    4    276      2, "
        "#gen drafts =      2, #acc drafts =     1, #gen tokens =     27, #acc tokens =     1, "
        "#mean acc len = 1.50, #acc rate/pos = (0.500), dur(b,g,a) = 0.001, 0.221, 0.002 ms"
    )
    assert log_reader.statistics(line) == log_reader.TypeStatistics(
        type="ngram-simple",
        calls=(4, 276, 2),
        gen_drafts=2,
        acc_drafts=1,
        gen_tokens=27,
        acc_tokens=1,
        mean_acc_len=1.5,
        rate_per_pos=(0.5,),
        dur_ms=(0.001, 0.221, 0.002),
    )


def test_statistics_line_without_its_last_fields() -> None:
    """Where nothing was drafted, what is missing is None, never 0."""
    line = (
        "statistics      ngram-cache: #calls(b,g,a) =    1     88      0, #gen drafts =      0, "
        "#acc drafts =     0, #gen tokens =      0, #acc tokens =     0"
    )
    for end, duration in ((", dur(b,g,a) = 0.000, 0.379, 0.000 ms", (0.0, 0.379, 0.0)), ("", None)):
        got = log_reader.statistics(line + end)
        assert got is not None
        assert (got.mean_acc_len, got.rate_per_pos, got.dur_ms) == (None, None, duration)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("id  0 | task 1 | accepted  2/12 draft tokens", log_reader.TraceStep(2, 12, False)),
        (
            "id  0 | task 1 | accepted  0/ 2 draft tokens (restore checkpoint)",
            log_reader.TraceStep(0, 2, True),
        ),
        ("id  0 | task 1 | accepted 2/12 draft tokens, new n_tokens = 73", None),
        ("draft acceptance = 0.65116 (   28 accepted /    43 generated), mean len =  2.87", None),
    ],
)
def test_trace_line(line: str, step: log_reader.TraceStep | None) -> None:
    """A trace line is a step; the debug line of `-lv 5`, which repeats it, is not."""
    assert log_reader.trace_step(line) == step


def test_replay_of_a_draft() -> None:
    """The worked example of the module: one verify step, one replay, 2 of 12 accepted."""
    prefix = "I slot   operator(): id  0 | task 7 | "
    lines = ["accepted  2/12 draft tokens (restore checkpoint)", "accepted  3/ 3 draft tokens"]
    (log,) = log_reader.requests(prefix + line for line in lines)
    assert (log.task, log.verify_steps, log.replays, log.drafted, log.accepted) == (7, 1, 1, 12, 2)
    assert log.accepted_per_pos == [1, 1]


def test_foreign_lines_make_no_request() -> None:
    """Lines of other kinds are passed over."""
    lines = [
        "",
        "0.00.1 I srv init: model loaded",
        "slot release: id  0 | task 3 | stop processing: n_tokens = 9",
    ]
    assert log_reader.requests(lines) == []
