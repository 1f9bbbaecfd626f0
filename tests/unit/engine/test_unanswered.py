"""A server that does not come back is asked for a while, not for the whole run."""

from __future__ import annotations

import pytest

from pytest_ngram.engine.unanswered import PATIENCE_S, Unanswered
from pytest_ngram.errors import EngineError


class Asked:
    """Asks a server which takes so long to fail, by a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asked = 0
        self.said: list[str] = []
        self.unanswered = Unanswered("http://h:1", self.said.append, lambda: self.now_s)

    def fails(self, takes_s: float) -> None:
        with pytest.raises(EngineError, match="nobody there") as caught:
            self._ask(takes_s)
        assert (caught.value.outcome, caught.value.checked, caught.value.fix) == ("hang", ("h",), "start it")

    def _ask(self, takes_s: float) -> None:
        with self.unanswered.asking():
            self.asked += 1
            self.now_s += takes_s
            raise EngineError("nobody there", outcome="hang", checked=["h"], fix="start it")

    def answers(self) -> None:
        with self.unanswered.asking():
            self.asked += 1


def test_a_silent_server_is_given_up_with_the_same_reason() -> None:
    """However many cells are left, they cost no more than a little over the patience, and one warning."""
    server = Asked()
    for _ in range(1000):
        server.fails(takes_s=6.0)
    assert server.asked == 5
    assert server.now_s - 100.0 == PATIENCE_S
    assert ["not asked again in this run" in text for text in server.said] == [True]


def test_one_long_wait_is_not_enough() -> None:
    """A server that was slow once is asked again."""
    server = Asked()
    server.fails(takes_s=10 * PATIENCE_S)
    server.answers()
    server.fails(takes_s=10 * PATIENCE_S)
    server.answers()
    assert server.said == []


def test_a_server_that_is_started_anew_gets_its_chance() -> None:
    """A dead port answers at once that it is dead, many times; a server that is back in time is used."""
    server = Asked()
    for _ in range(50):
        server.fails(takes_s=0.5)
        server.now_s += 0.01
    server.answers()
    for _ in range(50):
        server.fails(takes_s=0.5)
    server.answers()
    assert server.said == []
