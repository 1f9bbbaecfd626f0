"""Counts of a request are consistent, or unknown."""

from __future__ import annotations

import pytest

from pytest_ngram.engine.client import Timings
from pytest_ngram.engine.log_reader import RequestLog, TraceStep
from pytest_ngram.measure.accounting import Account, account


def timings(predicted_n: int, drafted: int | None = None, accepted: int | None = None) -> Timings:
    return Timings(
        prompt_n=10,
        prompt_ms=1.0,
        predicted_n=predicted_n,
        predicted_ms=1.0,
        draft_n=drafted,
        draft_n_accepted=accepted,
    )


def metrics(n_decode: int, verify: int, *per_position: int) -> dict[str, float]:
    found = {
        "llamacpp:n_decode_total": float(n_decode),
        "llamacpp:spec_decode_num_drafts_total": float(verify),
    }
    found["llamacpp:spec_decode_num_draft_tokens_total"] = 0.0
    found["llamacpp:spec_decode_num_accepted_tokens_total"] = 0.0
    for i, count in enumerate(per_position):
        found[f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}}'] = float(count)
    return found


def trace(verify: int, replays: int) -> RequestLog:
    return RequestLog(
        1, verify_steps=verify, replays=replays, steps=[TraceStep(1, 2, False)] * (verify + replays)
    )


def of(
    answer: Timings, delta: dict[str, float], log: RequestLog | None, *, speculative: bool = True
) -> Account:
    return account(answer, delta, log, speculative=speculative, prompt_decodes=2)


def test_the_baseline_is_known_to_draft_nothing() -> None:
    """`none` has 0 drafted, not unknown, and one step a token after the first."""
    found = of(timings(48), {"llamacpp:n_decode_total": 49.0}, None, speculative=False)
    assert found == Account(0, 0, 47, 0, 0, (), 49)


def test_replays_come_from_the_trace() -> None:
    """60 tokens, 28 accepted, 33 decodes: 31 steps, of which 15 verify and 15 replay."""
    found = of(timings(60, 40, 28), metrics(33, 15, 15, 13), trace(15, 15))
    assert (found.steps, found.verify_steps, found.replays, found.per_position) == (31, 15, 15, (15, 13))


def test_without_a_rejection_there_is_no_replay() -> None:
    """All accepted: nothing was rolled back, trace or not."""
    assert of(timings(12, 8, 8), metrics(5, 1, *[1] * 8), None).replays == 0


@pytest.mark.parametrize("log", [None, RequestLog(1), trace(14, 3)])
def test_a_trace_that_is_missing_or_not_whole_leaves_replays_unknown(log: RequestLog | None) -> None:
    """No trace, an empty one, or one that counts other verify steps than the server: unknown, never 0."""
    assert of(timings(60, 40, 28), metrics(33, 15), log).replays is None


def test_a_speculative_config_that_drafted_nothing() -> None:
    """No draft counts in the timings, but the metrics say 0: known, not unknown."""
    found = of(timings(10), metrics(11, 0), None)
    assert (found.drafted, found.accepted, found.verify_steps, found.replays, found.steps) == (0, 0, 0, 0, 9)


def test_a_build_without_metrics_leaves_its_counts_unknown() -> None:
    """Nothing drafted according to timings that only speak when something was: unknown."""
    found = of(timings(10), {}, None)
    assert found == Account(None, None, None, None, None, None, None)


def test_tokens_accepted_past_the_end_are_clipped() -> None:
    """8 tokens delivered by the prompt and one verify step, 8 said to be accepted: 7 were, in 1 step."""
    found = of(timings(8, 15, 8), metrics(3, 1, *[1] * 8), None)
    assert (found.accepted, found.steps, found.per_position) == (7, 1, None)


def test_tokens_accepted_past_the_end_after_an_ordinary_step() -> None:
    """1 + (4 accepted + 1) + 3 of 15 accepted: 9 tokens in 2 steps, 7 accepted."""
    found = of(timings(9, 30, 19), metrics(4, 2), trace(2, 0))
    assert (found.accepted, found.steps) == (7, 2)


def test_impossible_counts_without_a_second_source_are_unknown() -> None:
    """Steps below zero are never recorded."""
    delta = {"llamacpp:spec_decode_num_drafts_total": 1.0}
    found = of(timings(8, 15, 8), delta, None)
    assert (found.accepted, found.steps) == (None, None)


def test_contradicting_counts_leave_steps_unknown() -> None:
    """40 steps by definition, 41 by the server's own count: neither is recorded."""
    assert of(timings(60, 40, 19), metrics(43, 20), trace(20, 0)).steps is None
