"""Cells of runs that are made up, so that the truth of a verdict is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from pytest_ngram.verdict.samples import Sample

Log = Sequence[Sequence[float]]


def a_sample(config: str = "none", prompt: str = "p0", block: int = 1, **changes: Any) -> Sample:
    fields: dict[str, Any] = {
        "model": "m",
        "temperature": 0.0,
        "seconds": 0.1,
        "tokens": 64,
        "prompt_seconds": 0.01,
        "rss_mb": 1000.0,
    }
    return Sample(config=config, prompt=prompt, block=block, **{**fields, **changes})


def of_log(config: str, log_s: Log, **changes: Any) -> list[Sample]:
    """Cells of log seconds per token, blocks × prompts."""
    return [
        a_sample(config, f"p{prompt}", block, **{"seconds": math.exp(value), **changes})
        for block, row in enumerate(log_s, start=1)
        for prompt, value in enumerate(row)
    ]


def a_run(
    gains: Mapping[str, float], *, blocks: int = 4, prompts: int = 4, noise: float = 0.01
) -> list[Sample]:
    """A run with true gains as ratios − 1, and noise that is the same each time it is made."""
    rng = np.random.default_rng(7)
    base = np.tile(rng.normal(-2, 0.3, prompts), (blocks, 1))

    def noisy(gain: float = 0.0) -> Log:
        drawn: Log = (base - math.log1p(gain) + rng.normal(0, noise, base.shape)).tolist()
        return drawn

    cells = of_log("none", noisy(), pass_="first") + of_log("none", noisy(), pass_="last")
    for config, gain in gains.items():
        cells += of_log(config, noisy(gain))
    return cells


@pytest.fixture
def sample() -> Callable[..., Sample]:
    """`sample(config, prompt, block, **fields)`: one cell."""
    return a_sample


@pytest.fixture
def cells() -> Callable[..., list[Sample]]:
    """`cells(config, log_seconds, **fields)`: cells of blocks × prompts."""
    return of_log


@pytest.fixture
def run() -> Callable[..., list[Sample]]:
    """`run({config: gain}, blocks=, prompts=, noise=)`: a whole run."""
    return a_run
