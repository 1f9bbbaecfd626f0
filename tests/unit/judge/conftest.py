"""Answers whose counts agree, to be spoilt in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_ngram.judge import accounting
from pytest_ngram.judge.types import Answer, Trace, TypeCounts

# 60 tokens, 15 verify steps of 4 with 28 accepted, 15 replays, 1 plain step; the prompt takes 2 decodes.
_PER_POSITION = (13, 9, 4, 2)


def _answer(**changes: Any) -> Answer:
    metrics = {
        accounting.N_DECODE: 33.0,
        accounting.DRAFTED: 60.0,
        accounting.ACCEPTED: 28.0,
        accounting.VERIFY: 15.0,
        **{f'{accounting.PER_POSITION}{{position="{i}"}}': float(n) for i, n in enumerate(_PER_POSITION)},
        f'{accounting.PER_POSITION}{{position="4"}}': 0.0,
    }
    values: dict[str, Any] = {
        "prompt": "p",
        "prompt_ids": tuple(range(20)),
        "tokens": tuple(range(60)),
        "stop": "limit",
        "prompt_n": 20,
        "cache_n": 0,
        "predicted_n": 60,
        "draft_n": 60,
        "draft_n_accepted": 28,
        "metrics": metrics,
        "trace": Trace(
            verify=15, replays=15, drafted=60, accepted=28, per_position=_PER_POSITION, widths=(5, 5)
        ),
        "by_type": {"draft-mtp": TypeCounts(drafted=60, accepted=43)},
        "prompt_decodes": 2,
    }
    return Answer(**values | changes)


@pytest.fixture(scope="session")
def answer() -> Callable[..., Answer]:
    """`answer(field=value)`: an answer whose counts agree but for what is changed."""
    return _answer
