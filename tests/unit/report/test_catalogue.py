"""The texts: one for each code, with exactly the values that the code has."""

from __future__ import annotations

from importlib.resources import files
from string import Formatter
from typing import get_args

import pytest

from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.verdict.codes import CODES, Reason, reason
from pytest_ngram.verdict.points import Claim
from pytest_ngram.verdict.types import Decision

LANGUAGES = sorted(
    entry.name.removesuffix(".yaml")
    for entry in files("pytest_ngram.report").joinpath("texts").iterdir()
    if entry.name.endswith(".yaml")
)


def fields(text: str) -> set[str]:
    return {name for _literal, name, _form, _conversion in Formatter().parse(text) if name is not None}


def test_english_is_there() -> None:
    """The default language is one of the files."""
    assert "en" in LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_code_has_a_text_and_no_text_is_left_over(language: str) -> None:
    """Codes and texts are the same set, and so are decisions and claims with their words."""
    texts = catalogue(language)
    assert set(texts.reason) == set(CODES)
    assert set(texts.decision) == set(get_args(Decision))
    assert set(texts.claim) == set(get_args(Claim))
    assert {name: fields(text) for name, text in texts.line.items()} == {
        name: fields(text) for name, text in catalogue().line.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", sorted(CODES))
def test_a_text_has_exactly_the_values_of_its_code(language: str, code: str) -> None:
    """No value is left unsaid, and none is asked for that the code does not have."""
    assert fields(catalogue(language).reason[code]) == CODES[code]


def test_a_reason_is_said_with_its_values() -> None:
    """Shares are told as percent with their sign."""
    said = catalogue().say(reason("slower", gain=-0.431, low=-0.45, high=-0.4))
    assert said == "slower: -43.1% tg (-45.0% to -40.0%)"


@pytest.mark.parametrize(("code", "values"), [("slower", {"gain": 0.1}), ("nothing-of-ours", {})])
def test_a_reason_with_other_values_is_refused(code: str, values: dict[str, float]) -> None:
    """A code is made with all of its values, or not at all."""
    with pytest.raises(ValueError, match="takes"):
        reason(code, **values)
    assert Reason("slower").values == {}
