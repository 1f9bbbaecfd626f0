"""Requests and tables out of plain lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from literal import Table

from pytest_ngram.drafting.counts import Counts, new_counts, read_table
from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Request, Slot


def _counts(table: Table) -> Counts:
    keys = np.array([[*key, *[-1] * (4 - len(key))] for key in table], np.int64).reshape(-1, 4)
    starts = np.cumsum([0, *(len(part) for part in table.values())]).astype(np.int64)
    pairs = [pair for part in table.values() for pair in part.items()]
    counts = new_counts(4 * len(pairs) + 4 * len(keys))
    tokens, numbers = np.array(pairs, np.int64).reshape(-1, 2).T
    read_table(counts, keys, starts, tokens, numbers)
    return counts


@pytest.fixture(scope="session")
def counts_of() -> Callable[[Table], Counts]:
    """A table of the package out of a dict of dicts."""
    return _counts


@pytest.fixture(scope="session")
def request_of() -> Callable[..., Request]:
    """`request_of(prompt, answer)`: an answer that met its limit."""

    def build(prompt: Sequence[int], answer: Sequence[int]) -> Request:
        return Request(np.array([*prompt, *answer], np.int64), len(prompt), len(answer), ended=False)

    return build


@pytest.fixture(scope="session")
def draft() -> Callable[[str, str], str]:
    """`draft(policy, text)`: what a fresh policy drafts after a text; tokens are written with spaces."""

    def ask(policy: str, text: str) -> str:
        tokens = [int(word) for word in text.split()]
        slot = Slot(parse(policy), longest=len(tokens), total=len(tokens))
        slot.begin(tokens[:-1])
        return " ".join(map(str, slot.draft(tokens))) or "none"

    return ask
