"""Runs of which the cells that are left make a config look good: none is a reason to adopt it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect

Run = Callable[..., list[Sample]]


def the_effect(cells: list[Sample]) -> Effect:
    (effect,) = judge(cells).models[0].effects
    return effect


def codes(effect: Effect) -> list[str]:
    return [each.code for each in effect.reasons]


LOST: dict[str, Callable[[Sample], bool]] = {
    "own": lambda s: s.config != "none",
    "a pass of the baseline's": lambda s: s.pass_ == "last",
    "the baseline's": lambda s: s.config == "none",
}
HOW: dict[str, dict[str, Any]] = {
    "contended": {"disturbed": "contended"},
    "refused": {"status": "refused", "seconds": None},
    "a fault of a test": {"status": "error", "seconds": None},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("side", LOST)
@pytest.mark.parametrize(("prompts", "lost"), [(4, 1), (4, 2), (8, 3), (8, 6)])
def test_half_of_the_prompts_are_not_enough_to_adopt(
    run: Run, side: str, how: str, prompts: int, lost: int
) -> None:
    """Whichever side lost its cells, and whatever of: what is left has to be most of the prompts."""
    gone = {f"p{n}" for n in range(lost)}
    cells = [
        replace(each, **HOW[how]) if each.prompt in gone and LOST[side](each) else each
        for each in run({"mtp1": 0.4}, prompts=prompts)
    ]
    effect, told = the_effect(cells), 2 * lost < prompts
    assert effect.decision == ("adopt" if told else "cannot tell")
    assert ("few-of-the-prompts" in codes(effect)) is not told


def test_prompts_that_were_never_asked_of_a_config_count_as_left_out(run: Run) -> None:
    """A config that was run on the prompts that it is good at is not adopted for all."""
    cells = [s for s in run({"mtp1": 0.4}) if s.config == "none" or s.prompt in ("p0", "p1")]
    effect = the_effect(cells)
    assert effect.decision == "cannot tell"
    assert ("few-of-the-prompts", {"prompts": 2, "asked": 4}) in [(r.code, r.values) for r in effect.reasons]


@pytest.mark.parametrize(
    ("tokens", "decision"),
    [(3, "cannot tell"), (31, "cannot tell"), (32, "adopt"), (128, "adopt"), (129, "cannot tell")],
)
def test_answers_of_other_lengths_are_not_the_same_work(run: Run, tokens: int, decision: str) -> None:
    """An engine that ends its answers early is no faster for it: beyond twice nothing is adopted."""
    cells = [replace(each, tokens=tokens) if each.config != "none" else each for each in run({"mtp1": 0.4})]
    effect = the_effect(cells)
    assert effect.decision == decision
    assert (effect.tokens, effect.tokens_against) == (tokens, 64)


def test_a_slower_config_stays_refused_on_few_prompts_too(run: Run) -> None:
    """What is not sure takes an adopt back, and nothing else."""
    cells = [s for s in run({"mtp1": -0.4}) if s.config == "none" or s.prompt in ("p0", "p1")]
    assert the_effect(cells).decision == "do not adopt"


@pytest.mark.parametrize("idle", [0, 1, 2])
def test_a_type_that_drafted_nothing_is_not_adopted(run: Run, idle: int) -> None:
    """A journal holds an inert config as measured; its gain is noise, or something else than its drafts."""
    names = ("mtp1", "mtp2")[:idle]
    cells = [replace(each, idle=each.config in names) for each in run({"mtp1": 0.4, "mtp2": 0.3})]
    (model,) = judge(cells).models
    assert [each.decision for each in model.effects] == ["cannot tell"] * idle + ["adopt"] * (2 - idle)
    assert model.best == ("mtp1", "mtp2", None)[idle]


def test_one_cell_with_a_draft_is_a_draft(run: Run) -> None:
    """A prompt on which nothing was drafted is an honest cell."""
    cells = run({"mtp1": 0.4})
    cells = [*(replace(each, idle=each.config != "none") for each in cells[:-1]), cells[-1]]
    assert the_effect(cells).decision == "adopt"
