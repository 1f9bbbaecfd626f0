"""Durations: what a user may write, and how they are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.errors import OptionError
from pytest_ngram.matrix.duration import parse, said, written


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("1h30m", 5400),
        ("45s", 45),
        ("1.5h", 5400),
        ("1H 30M", 5400),
        ("1m1s", 61),
    ],
)
def test_what_users_write_is_read(text: str, seconds: float) -> None:
    """Hours, minutes and seconds in this order, each with its letter."""
    assert parse(text, "--x") == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "2x", "-2h", "0s", "h", "30m1h", "nan", "2h3", "٢h", "9" * 400 + "h"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A bare number has no unit, and nothing is not a time; the error shows how to write it."""
    with pytest.raises(OptionError, match=r"--x=2h"):
        parse(text, "--x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (243, "4 min 3 s"),
        (3599.7, "1 h"),
        (6840, "1 h 54 min"),
        (7200, "2 h"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    """No `60 s` and no `0 min`."""
    assert said(seconds) == text


@given(st.floats(min_value=0.01, max_value=1e6))
def test_what_is_proposed_can_be_given(seconds: float) -> None:
    """A duration written for an option is read as no less, and as less than a minute more."""
    assert seconds <= parse(written(seconds), "--x") <= seconds + 60
