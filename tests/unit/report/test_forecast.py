"""The lines before a run: what it takes, from what, and what is given up."""

from __future__ import annotations

from typing import Any

from pytest_ngram.matrix.budget import Cut
from pytest_ngram.matrix.estimate import Estimate, ModelEstimate, Origin
from pytest_ngram.report.forecast import budget_lines, forecast_lines


def part(model: str = "alpha", **changes: Any) -> ModelEstimate:
    fields: dict[str, Any] = {
        "model": model,
        "starts": 15,
        "cells": 60,
        "tokens": 3840,
        "prompt_tokens": 500,
        "unknown_prompts": 0,
        "uncounted": False,
        "load_s": 0.4,
        "duration_s": 72.0,
        "origins": {"none": Origin("old run", "none")},
    }
    return ModelEstimate(**{**fields, **changes})


def test_the_plan_has_all_figures() -> None:
    """Starts × load, cells, tokens with those of prompts, duration; by model and in total."""
    lines = forecast_lines(Estimate((part(), part("beta", duration_s=6000.0)), 0))
    alpha, beta, total = lines[1:4]
    assert alpha.split() == ["alpha", "15", "×", "0.4", "s", "60", "3840", "+", "500", "1", "min", "12", "s"]
    assert beta.endswith("1 h 40 min")
    assert total.split() == ["all", "30", "120", "7680", "+", "1000", "1", "h", "41", "min"]
    assert lines[4:] == ["figures of alpha, beta: old run"]
    assert len({len(line) for line in lines[:4]}) == 1


def test_unknown_is_never_a_figure() -> None:
    """A model without timings has no duration, the total says `at least`, and what to do is told."""
    unknown = part("beta", load_s=None, duration_s=None, prompt_tokens=0, unknown_prompts=4, origins={})
    lines = forecast_lines(Estimate((part(), unknown), 0))
    assert lines[2].split() == ["beta", "15", "×", "—", "60", "3840", "+", "—", "unknown"]
    assert lines[3].endswith("at least 1 min 12 s")
    assert lines[-1] == (
        "duration unknown: nothing measured yet on this host with this engine of beta; "
        "--ngram-probe takes one start a model"
    )
    alone = forecast_lines(Estimate((unknown,), 0))
    assert not any(" 0.0 s" in line for line in alone)


def test_stand_ins_are_named() -> None:
    """A config that was not measured is told with the one that stands for it."""
    lines = forecast_lines(Estimate((part(origins={"mtp1": Origin("old run", "none")}),), 0))
    assert "not measured yet, so taken to be as fast as none, with 25% on top: alpha/mtp1" in lines


def test_prompts_of_unknown_length_are_marked() -> None:
    """Where not all prompts are known, their tokens are a lower bound."""
    lines = forecast_lines(Estimate((part(unknown_prompts=2),), 0))
    assert "3840 + ≥ 500" in lines[1]


def test_nothing_left() -> None:
    """A run whose cells are all restored has no table."""
    assert forecast_lines(Estimate((), 60)) == ["nothing is left to measure"]


def cut(**changes: Any) -> Cut:
    fields: dict[str, Any] = {
        "cells": (None,) * 352,
        "blocks": 3,
        "prompts": 8,
        "of_cells": 1760,
        "of_blocks": 5,
        "of_prompts": 24,
        "kinds": True,
        "names": {"alpha": ("p",)},
        "duration_s": 6840.0,
    }
    return Cut(**{**fields, **changes})


def test_what_a_budget_gave_up_is_told() -> None:
    """Blocks, prompts, cells, and the time that is left to be used."""
    assert budget_lines(cut(), 7200.0) == [
        "budget: 5 blocks → 3, 24 prompts → 8; 1760 cells → 352; 1 h 54 min of 2 h",
        "  prompts that stay: p",
    ]
    assert budget_lines(cut(blocks=5, prompts=24), 7200.0) == ["budget: everything fits, 1 h 54 min of 2 h"]


def test_a_budget_without_a_verdict_is_told() -> None:
    """Fewer than three blocks cannot decide, and kinds of prompts that are gone are not hidden."""
    lines = budget_lines(cut(blocks=2, prompts=1, kinds=False), 7200.0)
    assert "fewer than 3 blocks can never give a verdict" in lines[2]
    assert "not every kind" in lines[3]
    (only,) = budget_lines(cut(blocks=2, of_blocks=2, prompts=24), 7200.0)
    assert "blocks" not in only


def test_prompts_that_are_not_counted_are_told() -> None:
    """A duration without prompts is a lower bound, by model and in total."""
    lines = forecast_lines(
        Estimate((part(uncounted=True, prompt_tokens=0, unknown_prompts=2), part("beta")), 0)
    )
    assert lines[1].endswith("at least 1 min 12 s")
    assert lines[3].endswith("at least 2 min 24 s")
    assert "prompts of alpha are not counted: their length is not known; --ngram-probe finds out" in lines
    some = forecast_lines(Estimate((part(unknown_prompts=2),), 0))
    assert "2 prompts of alpha of unknown length count as the mean of the others" in some


def test_no_advice_that_was_followed() -> None:
    """Where the probe was asked for and did not end, it is not asked for again."""
    unknown = part(load_s=None, duration_s=None, origins={})
    lines = forecast_lines(Estimate((unknown,), 0), probe=True)
    assert lines[-1] == (
        "duration unknown: nothing measured yet on this host with this engine of alpha; "
        "the probe did not end well"
    )


def test_the_prompts_that_stay_are_named() -> None:
    """By model where they differ; only where some were given up."""
    names = {"alpha": ("p", "q"), "beta": ("p", "q")}
    assert "  prompts that stay: p, q" in budget_lines(cut(names=names), 7200.0)
    lines = budget_lines(cut(names=names | {"beta": ("r",)}), 7200.0)
    assert "  prompts that stay: alpha: p, q; beta: r" in lines
    assert len(budget_lines(cut(prompts=24, names=names), 7200.0)) == 1
