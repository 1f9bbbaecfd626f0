"""Each count of a request against the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.judge import accounting
from pytest_ngram.judge.accounting import ACCEPTED, DRAFTED, METRICS, N_DECODE, VERIFY
from pytest_ngram.judge.types import Answer, Trace, TypeCounts

Make = Callable[..., Answer]
POSITION = accounting.PER_POSITION + '{position="0"}'


def with_metric(answer: Answer, name: str, value: float | None) -> Answer:
    metrics = dict(answer.metrics or {})
    if value is None:
        metrics = {key: each for key, each in metrics.items() if not key.startswith(name)}
    else:
        metrics[name] = value
    return msgspec.structs.replace(answer, metrics=metrics)


def test_the_worked_example_agrees(answer: Make) -> None:
    """60 tokens, 28 accepted, 15 verify steps, 15 replays, 33 decodes: all of it adds up."""
    assert accounting.judge(answer(), speculative=True).status == "passed"


def test_a_plain_answer_agrees(answer: Make) -> None:
    """Of a baseline only the decodes are counted."""
    plain = answer(
        draft_n=None,
        draft_n_accepted=None,
        trace=Trace(0, 0, 0, 0, ()),
        by_type={},
        metrics={N_DECODE: 61.0},
    )
    assert accounting.judge(plain, speculative=False).status == "passed"
    off = with_metric(plain, N_DECODE, 62.0)
    assert accounting.judge(off, speculative=False).kind == "contradiction"


@pytest.mark.parametrize("name", [*METRICS, accounting.PER_POSITION])
def test_a_missing_metric_fails(answer: Make, name: str) -> None:
    """Every counter that is needed fails the gate by its name when it is not there."""
    verdict = accounting.judge(with_metric(answer(), name, None), speculative=True)
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert name in verdict.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics": None}, "/metrics"),
        ({"trace": None}, "closing line"),
        ({"draft_n": None}, "draft_n,"),
        ({"draft_n_accepted": None}, "draft_n_accepted"),
        ({"by_type": None}, "statistics"),
        ({"by_type": {}}, "statistics"),
    ],
)
def test_a_missing_source_fails(answer: Make, changes: dict[str, Any], said: str) -> None:
    """A source that says nothing is no agreement."""
    verdict = accounting.judge(answer(**changes), speculative=True)
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert said in verdict.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"draft_n": 61}, "drafted"),
        ({"draft_n_accepted": 27}, "accepted"),
        ({"predicted_n": 59}, "timed"),
        ({"prompt_n": 19}, "prompt tokens"),
        ({"prompt_decodes": 3}, "steps"),
        ({"by_type": {"draft-mtp": TypeCounts(60, 42)}}, "statistics count 42 accepted"),
        ({"by_type": {"draft-mtp": TypeCounts(59, 43)}}, "statistics count 59 drafted"),
        ({"by_type": {"a": TypeCounts(40, 43), "b": TypeCounts(21, 0)}}, "statistics count 61 drafted"),
        ({"trace": Trace(14, 15, 60, 28, (13, 9, 4, 2))}, "verify steps"),
        ({"trace": Trace(15, 15, 60, 28, (13, 9, 5, 1))}, "by position"),
    ],
)
def test_a_changed_source_contradicts(answer: Make, changes: dict[str, Any], said: str) -> None:
    """One source changed by one is told as the contradiction that it is."""
    verdict = accounting.judge(answer(**changes), speculative=True)
    assert verdict.kind == "contradiction"
    assert said in verdict.text


@pytest.mark.parametrize("name", [N_DECODE, DRAFTED, ACCEPTED, VERIFY, POSITION])
@given(off=st.integers(1, 1000))
def test_a_counter_that_is_off_is_caught(answer: Make, name: str, off: int) -> None:
    """No counter can be wrong by any amount unseen."""
    right = answer()
    assert right.metrics is not None
    wrong = with_metric(right, name, right.metrics[name] + off)
    assert accounting.judge(wrong, speculative=True).status == "failed"


def test_accepted_past_the_end(answer: Make) -> None:
    """Issue 28049: 7 accepted of 6 delivered leave less than no steps; the class is its own."""
    metrics = {N_DECODE: 7.0, DRAFTED: 15.0, ACCEPTED: 7.0, VERIFY: 1.0}
    metrics |= {f'{accounting.PER_POSITION}{{position="{i}"}}': 1.0 for i in range(7)}
    seen = answer(
        tokens=tuple(range(6)),
        predicted_n=6,
        draft_n=15,
        draft_n_accepted=7,
        metrics=metrics,
        trace=Trace(verify=1, replays=1, drafted=15, accepted=7, per_position=(1,) * 7),
        by_type={"ngram-simple": TypeCounts(15, 8)},
    )
    assert accounting.judge(seen, speculative=True).kind == "accepted past the end"


def ended(answer: Make, stop: str, *, decodes: float, ends_whole: bool = True) -> str | None:
    """The class of 60 tokens that 31 steps give, with so many decodes after the prompt."""
    trace = msgspec.structs.replace(answer().trace, ends_whole=ends_whole)
    seen = with_metric(answer(stop=stop, trace=trace), N_DECODE, decodes + 2)
    return accounting.judge(seen, speculative=True).kind


@pytest.mark.parametrize("stop", ["eos", "word"])
def test_the_last_step_may_lose_its_own_token(answer: Make, stop: str) -> None:
    """Where a draft that was accepted whole ends with the end, one decode more is right, and no other."""
    assert ended(answer, stop, decodes=31) is None
    assert ended(answer, stop, decodes=32) is None
    assert ended(answer, stop, decodes=32, ends_whole=False) == "accepted past the end"
    assert ended(answer, stop, decodes=33) == "accepted past the end"
    assert ended(answer, stop, decodes=30) == "contradiction"


def test_only_a_draft_can_be_accepted_past_the_end(answer: Make) -> None:
    """A text that was cut by its limit, or decodes that no draft can hold, are plain contradictions."""
    assert ended(answer, "limit", decodes=32) == "contradiction"
    assert ended(answer, "eos", decodes=31 + 5) == "accepted past the end"
    assert ended(answer, "eos", decodes=31 + 6) == "contradiction"


def test_mtp_whose_last_draft_is_the_end(answer: Make) -> None:
    """Three drafts of one token, all accepted, the last of them the end: 6 tokens in 3 verify steps."""
    metrics = {N_DECODE: 5.0, DRAFTED: 3.0, ACCEPTED: 3.0, VERIFY: 3.0, POSITION: 3.0}
    seen = answer(
        tokens=tuple(range(6)),
        predicted_n=6,
        stop="eos",
        draft_n=3,
        draft_n_accepted=3,
        metrics=metrics,
        trace=Trace(3, 0, 3, 3, (3,), widths=(2, 2), ends_whole=True),
        by_type={"draft-mtp": TypeCounts(3, 3)},
    )
    assert accounting.judge(seen, speculative=True).status == "passed"


def test_a_baseline_that_drafts_is_caught(answer: Make) -> None:
    """A config without types that drafted all the same contradicts itself."""
    assert accounting.judge(answer(), speculative=False).kind == "contradiction"
