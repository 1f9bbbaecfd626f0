"""Which requests are measured again, and which of them is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pytest_ngram.measure.again import IN_VAIN, Again, Luck, Quiet
from pytest_ngram.measure.sampler import Span
from pytest_ngram.record import Host, Round

NONE: dict[str, Any] = dict.fromkeys(field for field in Host.__struct_fields__ if field != "absent")
QUIET, LOUD, LOUDER = 0.01, 0.3, 0.6


def span(others: float) -> Span:
    """A second of which others took this share of one core."""
    return Span(1.0, others, 0.0, 1.0, 0.0, 0.0, {}, None, None)


def host_of(seen: Span) -> Host:
    return Host(**NONE | {"others_busy": seen.busy_s, "seconds": seen.seconds})


class Requests:
    """Answers in turn, each with the share that others took meanwhile; the seed counts them."""

    def __init__(self, *others: float) -> None:
        self._others: Iterator[float] = iter(others)
        self.asked = 0

    def __call__(self) -> tuple[Round, Span]:
        self.asked += 1
        fields = dict.fromkeys(Round.__struct_fields__) | {"status": "ok", "seed": self.asked}
        return msgspec.convert(fields, Round), span(next(self._others))


def kept_of(again: Again, requests: Requests) -> int:
    return again.quietest(requests, host_of)[0].seed


def test_a_quiet_request_is_not_repeated() -> None:
    """Nothing is measured again without a reason."""
    again, requests = Again(Quiet(repeats=2), stateful=False), Requests(QUIET)
    assert kept_of(again, requests) == 1
    disturbance = again.disturbance(host_of(span(QUIET)))
    assert (disturbance.repeats, disturbance.repeat_s, disturbance.not_repeated) == (0, 0.0, None)


def test_a_contended_request_is_repeated_until_it_is_quiet() -> None:
    """The first quiet one is kept, and the seconds of the others are told apart."""
    again, requests = Again(Quiet(repeats=3), stateful=False), Requests(LOUD, LOUDER, QUIET)
    assert kept_of(again, requests) == 3
    disturbance = again.disturbance(host_of(span(QUIET)))
    assert (disturbance.contended, disturbance.repeats, disturbance.repeat_s) == ((), 2, 2.0)


def test_the_quietest_is_kept_if_none_is_quiet() -> None:
    """Not the last and not the fastest; the cell stays contended and says that no repeat is left."""
    again, requests = Again(Quiet(repeats=2), stateful=False), Requests(LOUDER, LOUD, LOUDER)
    assert kept_of(again, requests) == 2
    disturbance = again.disturbance(host_of(span(LOUD)))
    assert disturbance.contended == ("others took 30% of the cores",)
    assert disturbance.not_repeated == "2 repeats are allowed in a cell"


def test_repeats_are_of_a_cell_not_of_a_request() -> None:
    """A second round of the cell has what the first left."""
    again, requests = Again(Quiet(repeats=1), stateful=False), Requests(LOUD, QUIET, LOUD)
    assert [kept_of(again, requests) for _ in range(2)] == [2, 3]


@pytest.mark.parametrize(
    ("quiet", "stateful", "why"),
    [
        (Quiet(repeats=2), True, "its config keeps state between requests"),
        (Quiet(repeats=0), False, "0 repeats are allowed in a cell"),
        (Quiet(repeats=2, has_time=lambda seconds: seconds < 1), False, "the budget leaves no time"),
        (Quiet(repeats=2, luck=Luck(IN_VAIN)), False, f"{IN_VAIN} requests in a row stayed disturbed*"),
    ],
)
def test_what_is_not_repeated_is_marked_and_says_why(quiet: Quiet, stateful: bool, why: str) -> None:
    """State, the user, the budget, and a machine that is busy for long forbid repeats; the mark stays."""
    again, requests = Again(quiet, stateful=stateful), Requests(LOUD)
    assert kept_of(again, requests) == 1
    disturbance = again.disturbance(host_of(span(LOUD)))
    assert disturbance.contended
    assert disturbance.not_repeated is not None
    assert disturbance.not_repeated.startswith(why.rstrip("*"))


def test_a_busy_machine_ends_repeats_until_it_is_quiet() -> None:
    """After so many requests in vain none is repeated, which one quiet request changes."""
    quiet = Quiet(repeats=1)

    def asked(*others: float) -> int:
        requests = Requests(*others)
        kept_of(Again(quiet, stateful=False), requests)
        return requests.asked

    assert [asked(LOUD, LOUD) for _ in range(IN_VAIN)] == [2] * IN_VAIN
    assert asked(LOUD) == 1
    assert asked(QUIET) == 1
    assert asked(LOUD, QUIET) == 2


def test_a_rest_before_a_repeat_is_counted() -> None:
    """Seconds of rest are no measured time, and are told with those of the repeats."""
    again = Again(Quiet(repeats=1, rest=lambda: 30.0), stateful=False)
    kept_of(again, Requests(LOUD, QUIET))
    assert again.disturbance(host_of(span(QUIET))).repeat_s == 31.0
