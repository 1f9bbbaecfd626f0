"""Counts of a request are consistent, or unknown."""

from __future__ import annotations

import pytest

from pytest_ngram.engine.client import Timings
from pytest_ngram.engine.log_reader import RequestLog, TraceStep
from pytest_ngram.measure.accounting import Account, account
from pytest_ngram.record import TypeDrafts


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
    answer: Timings,
    delta: dict[str, float],
    log: RequestLog | None,
    *,
    speculative: bool = True,
    by_type: dict[str, TypeDrafts] | None = None,
) -> Account:
    return account(answer, delta, log, by_type, speculative=speculative, prompt_decodes=2)


def test_the_baseline_is_known_to_draft_nothing() -> None:
    """`none` has 0 drafted, not unknown, and one step a token after the first."""
    found = of(timings(48), {"llamacpp:n_decode_total": 49.0}, None, speculative=False)
    assert found == Account(0, 0, 47, 0, 0, (), 49, {})


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


def test_a_type_that_drafted_alone_has_all_that_was_accepted() -> None:
    """Statistics count the tokens of 15 replays again, 43 for 28; the request's own count is the type's."""
    found = of(timings(60, 40, 28), metrics(33, 15), trace(15, 15), by_type={"a": TypeDrafts(16, 15, 40, 43)})
    assert found.by_type == {"a": TypeDrafts(16, 15, 40, 28)}


def test_a_stack_without_replays_adds_up() -> None:
    """Each type has its own drafted and accepted tokens, and their sums are the request's."""
    types = {"a": TypeDrafts(20, 5, 10, 4), "b": TypeDrafts(15, 15, 30, 15)}
    found = of(timings(60, 40, 19), metrics(42, 20), trace(20, 0), by_type=types)
    assert found.by_type == types


def test_which_type_was_replayed_is_not_told() -> None:
    """The sum of accepted tokens exceeds the request's by its replays, so no type's share is known."""
    types = {"a": TypeDrafts(20, 5, 10, 8), "b": TypeDrafts(15, 10, 30, 25), "c": TypeDrafts(5, 0, 0, 0)}
    found = of(timings(60, 40, 28), metrics(33, 15), trace(15, 5), by_type=types).by_type
    assert found is not None
    assert {name: drafts.accepted for name, drafts in found.items()} == {"a": None, "b": None, "c": 0}
    assert {name: drafts.drafted for name, drafts in found.items()} == {"a": 10, "b": 30, "c": 0}


def test_what_was_clipped_is_clipped_for_the_type_too() -> None:
    """Tokens that were accepted past the end are no type's."""
    found = of(timings(8, 15, 8), metrics(3, 1), None, by_type={"a": TypeDrafts(1, 1, 15, 8)})
    assert (found.accepted, found.by_type) == (7, {"a": TypeDrafts(1, 1, 15, 7)})


@pytest.mark.parametrize("other", [TypeDrafts(20, 15, 39, 28), TypeDrafts(20, 14, 40, 28)])
def test_types_that_contradict_the_request_are_unknown(other: TypeDrafts) -> None:
    """Other tokens or other drafts than the request had: lines of something else, or lines missing."""
    assert of(timings(60, 40, 28), metrics(33, 15), trace(15, 0), by_type={"a": other}).by_type is None


def test_the_log_tells_what_older_metrics_do_not_count() -> None:
    """A build with n_decode_total alone: verify steps and positions come from the log, none is unknown."""
    log = RequestLog(
        1,
        verify_steps=15,
        drafted=40,
        accepted=28,
        accepted_per_pos=[15, 13],
        steps=[TraceStep(1, 2, False)] * 15,
    )
    delta = {"llamacpp:n_decode_total": 33.0}
    found = of(timings(60, 40, 28), delta, log, by_type={"a": TypeDrafts(15, 15, 40, 28)})
    assert (found.verify_steps, found.per_position, found.steps) == (15, (15, 13), 31)
    quiet = of(timings(48), {"llamacpp:n_decode_total": 49.0}, None, by_type={"a": TypeDrafts(46, 0, 0, 0)})
    assert (quiet.drafted, quiet.accepted, quiet.verify_steps, quiet.per_position) == (0, 0, 0, ())


def test_a_trace_that_is_not_whole_tells_no_positions() -> None:
    """The lines count fewer tokens than the request had."""
    log = RequestLog(1, verify_steps=14, drafted=38, accepted=28, steps=[TraceStep(1, 2, False)] * 14)
    found = of(timings(60, 40, 28), {}, log)
    assert (found.verify_steps, found.per_position) == (None, None)
