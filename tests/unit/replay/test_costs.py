"""`--cost FILE`: what `pytest-ngram curve` wrote, or a few points by hand; anything else is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.replay.costs import read_curve

POINT = {"tokens": 4, "n": 30, "ms": 16.0, "ratio": 1.6, "low": 1.5, "high": 1.8}
SERIES = {"points": [POINT], "draft_ratio": 0.1}
CURVE = {
    "plain_ms": 10.0,
    "plain_n": 100,
    "blocks": 3,
    "series": {"ngram": SERIES, "draft-mtp": SERIES},
}
FILE = {
    "schema": 1,
    "model": None,
    "engine": None,
    "cpu": "a cpu",
    "curve": CURVE,
    "break_even": {},
    "notes": [],
}


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "cost.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_points_by_hand(tmp_path: Path) -> None:
    """Tokens of a decode, and milliseconds."""
    curve = read_curve(written(tmp_path, {"1": 9.2, "4": 21, "2": 14.1}))
    assert (curve.tokens, curve.seconds) == ((1, 2, 4), pytest.approx((0.0092, 0.0141, 0.021)))
    assert curve.low is curve.high is None


def test_a_measured_curve(tmp_path: Path) -> None:
    """A plain step takes 10 ms; one of 4 tokens 1.6 of it, and 0.1 for each of its 3 drafted tokens."""
    curve = read_curve(written(tmp_path, FILE))
    assert curve.tokens == (1, 4)
    assert curve.seconds == pytest.approx((0.010, 0.019))
    assert curve.low == pytest.approx((0.010, 0.018))
    assert curve.high == pytest.approx((0.010, 0.021))


def test_a_measured_curve_without_the_price_of_drafting(tmp_path: Path) -> None:
    """Where it was not measured the decode alone counts."""
    series = {"ngram": {**SERIES, "draft_ratio": None}}
    curve = read_curve(written(tmp_path, {**FILE, "curve": {**CURVE, "series": series}}))
    assert curve.seconds == pytest.approx((0.010, 0.016))


def test_drafting_has_the_price_of_its_width(tmp_path: Path) -> None:
    """As in the forecast: what drafting a token cost in drafts of this length, not in the middle of all."""
    series = {"ngram": {**SERIES, "points": [{**POINT, "draft_ratio": 0.2}]}}
    curve = read_curve(written(tmp_path, {**FILE, "curve": {**CURVE, "series": series}}))
    assert curve.seconds == pytest.approx((0.010, 0.022))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ("[1, 2]", "no JSON object"),
        ({}, "a token or more"),
        ({"0": 1.0}, "a token or more"),
        ({"one": 1.0}, "invalid literal"),
        ({"1": "fast"}, "no number of milliseconds"),
        ({"1": None}, "no number of milliseconds"),
        ({"1": True}, "no number of milliseconds"),
        ({"1": -2.0}, "takes time"),
        ('{"1": NaN}', "takes time"),
        ({"curve": None}, "Expected `object`"),
        ({"curve": {**CURVE, "series": {"draft-mtp": SERIES}}}, "no series 'ngram' but draft-mtp"),
        (
            {"curve": {**CURVE, "series": {"ngram": {"points": [{}], "draft_ratio": 0.0}}}},
            "missing required field `tokens`",
        ),
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_curve_is_refused(tmp_path: Path, content: object, said: str) -> None:
    """The error names the file, what is wrong, and both forms."""
    path = written(tmp_path, content)
    with pytest.raises(OptionError) as error:
        read_curve(path)
    assert said in error.value.cause
    assert str(path) in error.value.checked
    assert "pytest-ngram curve --out" in error.value.fix


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """So does that of a file that cannot be opened."""
    with pytest.raises(OptionError, match="No such file"):
        read_curve(tmp_path / "none.json")
