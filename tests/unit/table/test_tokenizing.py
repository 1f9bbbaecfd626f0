"""Tokenizing ahead of what is used."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from pytest_ngram.errors import EngineError
from pytest_ngram.table import Ids
from pytest_ngram.table.build.tokenizing import Ahead

DEADLINE_S = 60


def ids_of(texts: Sequence[str]) -> list[Ids]:
    return [np.array(list(text.encode()), np.int32) for text in texts]


def test_answers_come_in_order_and_each_is_its_own() -> None:
    """What is asked for first is answered first, however late it is fetched."""
    with Ahead(ids_of) as tokenize:
        answers = [tokenize([letter, letter * 2]) for letter in "abc"]
        assert [[ids.tolist() for ids in answer()] for answer in answers] == [
            [[97], [97, 97]], [[98], [98, 98]], [[99], [99, 99]],
        ]  # fmt: skip
        assert tokenize([])() == []


def test_the_first_call_is_made_here_and_the_next_while_we_go_on() -> None:
    """A server ends with the thread that started it; after that, asking does not wait for the answer."""
    threads: list[threading.Thread] = []
    go_on = threading.Event()

    def waits(texts: Sequence[str]) -> list[Ids]:
        threads.append(threading.current_thread())
        assert len(threads) == 1 or go_on.wait(DEADLINE_S)
        return ids_of(texts)

    with Ahead(waits) as tokenize:
        tokenize(["a"])
        answer = tokenize(["b"])
        go_on.set()
        assert answer()[0].tolist() == [98]
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threading.current_thread()


def test_an_error_is_raised_where_the_answer_is_fetched() -> None:
    """The tokenizer's own error comes through, from the first call and from a later one."""

    def fails(texts: Sequence[str]) -> list[Ids]:
        if texts == ["bad"]:
            raise EngineError("gone", outcome="crash", fix="")
        return ids_of(texts)

    with Ahead(fails) as tokenize, pytest.raises(EngineError, match="gone"):
        tokenize(["bad"])
    with Ahead(fails) as tokenize:
        tokenize(["good"])
        answer = tokenize(["bad"])
        with pytest.raises(EngineError, match="gone"):
            answer()
