"""A setting is chosen on one half of the prompts, and told on the other."""

from __future__ import annotations

import numpy as np

from pytest_ngram.cli.replay_told import told
from pytest_ngram.drafting.cost import from_points
from pytest_ngram.drafting.grid import halves, settings
from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Request
from pytest_ngram.drafting.tally import pooled
from pytest_ngram.replay.choose import choose
from pytest_ngram.replay.sweep import Stream, run

LONG, SHORT = "prompt-lookup:n=16,min=2,max=2", "prompt-lookup:n=1,min=2,max=2"


def request_of(prompt: list[int], answer: list[int]) -> Request:
    return Request(np.array([*prompt, *answer], np.int64), len(prompt), len(answer), ended=False)


def copies(base: int) -> Request:
    """An answer that copies the prompt: the longer the draft the better."""
    text = [base + i for i in range(30)]
    return request_of(text, text)


def turns(base: int) -> Request:
    """An answer in which what follows a pair is what came last time for one token only."""
    text = [token for i in range(15) for token in (base, base + 1, base + 2, base + 10 + i)]
    return request_of(text[:20], text[20:])


def stream_of(*requests: tuple[str, Request], name: str = "m/t0") -> Stream:
    return Stream(name, None, requests, restores=False)


# the first half likes long drafts, the other does not
STREAM = stream_of(("a", copies(100)), ("b", turns(200)), ("c", copies(300)), ("d", turns(400)))
RESULTS = [run(parse(text), STREAM) for text in (SHORT, LONG)]
# each token of a draft costs as much as a decode
DEAR = from_points({1: 0.1, 2: 0.2})


def test_the_best_of_one_half_is_told_on_the_other() -> None:
    """Halves are every other prompt; the choice is the first's best, with the tallies of either half."""
    (choice,) = choose(RESULTS, [STREAM], {"m/t0": (None, ())})
    assert (choice.chosen_on, choice.held_out) == (("a", "c"), ("b", "d")) == halves(STREAM.prompts)
    assert choice.policy == parse(LONG)
    assert choice.there == pooled(RESULTS[1].of(["a", "c"]))
    assert choice.here == pooled(RESULTS[1].of(["b", "d"]))
    assert (choice.by, choice.tg, choice.settings) == ("tokens per step", None, 2)


def test_the_choice_may_be_beaten_where_it_is_told() -> None:
    """What is best on the first half is not on the other, where decodes are dear, and `place` says so."""
    costs = {"m/t0": (from_points({1: 0.1, 2: 0.11, 17: 0.2}), ())}
    (choice,) = choose(RESULTS, [STREAM], costs)
    assert choice.policy == parse(LONG)
    assert choice.by == "tg"
    assert choice.place == 2
    assert choice.tg is not None


def test_a_cost_curve_changes_the_choice() -> None:
    """Where a drafted token costs a decode, the setting that drafts less is better."""
    stream = stream_of(("a", turns(100)), ("b", turns(200)))
    results = [run(parse(text), stream) for text in (LONG, SHORT)]
    (choice,) = choose(results, [stream], {"m/t0": (DEAR, ())})
    assert choice.policy == parse(SHORT)
    assert choice.place == 1


def test_of_equals_the_first_of_the_sweep_is_taken() -> None:
    """Settings that draft nothing at all are equal."""
    tried = settings(parse("ngram-simple"), {"size_n": (100, 200, 300)})
    (choice,) = choose([run(each, STREAM) for each in tried], [STREAM], {"m/t0": (None, ())})
    assert choice.policy == tried[0]
    assert choice.place == 1


def test_each_stream_has_a_choice_of_its_own() -> None:
    """Results of another stream do not count, and one prompt alone has no other half."""
    other = stream_of(("a", turns(100)), name="m/t0.7")
    third = stream_of(("a", turns(100)), ("b", turns(500)), name="n/t0")
    results = [*RESULTS, *(run(parse(text), each) for each in (other, third) for text in (SHORT, LONG))]
    costs = dict.fromkeys(("m/t0", "m/t0.7", "n/t0"), (None, ()))
    found = choose(results, [STREAM, other, third], costs)
    assert [choice.stream for choice in found] == ["m/t0", "n/t0"]
    assert [choice.settings for choice in found] == [2, 2]


def test_a_choice_that_drafted_nothing_says_so() -> None:
    """Where no setting gains on the half it is chosen on, the first is told, and why it says little."""

    def fresh(base: int) -> Request:
        return request_of([base + i for i in range(20)], [base + 20 + i for i in range(20)])

    stream = stream_of(("a", fresh(100)), ("b", copies(200)))
    results = [run(parse(text), stream) for text in (LONG, SHORT)]
    costs = {"m/t0": (None, ())}
    assert any("this one drafted nothing" in line for line in told(stream, choose(results, [stream], costs)))
    assert not any("drafted nothing" in line for line in told(STREAM, choose(RESULTS, [STREAM], costs)))
