"""The texts: what is asked for is there, what is there is asked for, and the values fit."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import jinja2
import jinja2.nodes
import pytest

from pytest_ngram.record import Status
from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.verdict.codes import CODES, Reason, reason
from pytest_ngram.verdict.points import Claim
from pytest_ngram.verdict.types import Decision

REPORT = Path(__file__).parents[3] / "pytest_ngram" / "report"
LANGUAGES = sorted(path.stem for path in (REPORT / "texts").glob("*.yaml"))
ANY = "([a-z-]+)"


def in_python() -> Iterator[tuple[str, frozenset[str]]]:
    """Keys and the values given with them; what stands in braces of an f-string is any text."""
    for path in REPORT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "tell"
            ):
                for key in keys_of(node.args[0], path):
                    yield key, values_of(node)


def values_of(call: ast.Call) -> frozenset[str]:
    """The values that a call names; any, where it hands on a whole dictionary."""
    names = [word.arg for word in call.keywords]
    return frozenset(names) if None not in names else frozenset({ANY})  # type: ignore[arg-type]


def keys_of(node: ast.expr, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield re.escape(str(node.value))
    elif isinstance(node, ast.JoinedStr):
        yield "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ANY for p in node.values)
    elif isinstance(node, ast.IfExp):
        yield from keys_of(node.body, path)
        yield from keys_of(node.orelse, path)


def words() -> set[str]:
    """Every string of reports, verdicts and templates: keys, or their ends, that a variable hands on."""
    found = set(get_args(Status))
    for path in (*REPORT.rglob("*.py"), *(REPORT.parent / "verdict").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    for path in (REPORT / "templates").glob("*.j2"):
        tree = jinja2.Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
        found |= {node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
    return found


def in_templates() -> Iterator[tuple[str, frozenset[str]]]:
    for path in (REPORT / "templates").glob("*.j2"):
        tree = jinja2.Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
        for call in tree.find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "text":
                key = call.args[0]
                values = frozenset(word.key for word in call.kwargs)
                if isinstance(key, jinja2.nodes.Const):
                    yield re.escape(key.value), values
                else:
                    assert isinstance(key, jinja2.nodes.Concat)
                    first = key.nodes[0]
                    assert isinstance(first, jinja2.nodes.Const)
                    yield re.escape(first.value) + ANY, values


def placeholders(text: str) -> set[str]:
    return {name for _text, name, _form, _conversion in string.Formatter().parse(text) if name is not None}


@pytest.fixture(params=LANGUAGES)
def texts(request: pytest.FixtureRequest) -> Catalogue:
    return catalogue(request.param)


def test_every_key_that_is_asked_for_is_there(texts: Catalogue) -> None:
    """A report of no kind fails for a text that is missing, in no language."""
    missing = [key for key, _values in [*in_python(), *in_templates()] if not matches(key, texts)]
    assert missing == []


def matches(key: str, texts: Catalogue) -> list[str]:
    return [known for known in texts.page if re.fullmatch(key, known)]


def test_every_text_is_asked_for(texts: Catalogue) -> None:
    """What nothing says any more is no work for a translator."""
    asked = [key for key, _values in [*in_python(), *in_templates()]]
    known_words = words()

    def is_asked(known: str) -> bool:
        found = [match for key in asked if (match := re.fullmatch(key, known))]
        return known in known_words or any(
            all(end.removesuffix("-hint") in known_words for end in match.groups()) for match in found
        )

    unused = [known for known in texts.page if not is_asked(known)]
    assert unused == []


def test_values_fit_their_texts(texts: Catalogue) -> None:
    """Each value that a text names is given; nothing fails when a report is made."""
    wrong = [
        (known, sorted(placeholders(texts.page[known])), sorted(values))
        for key, values in [*in_python(), *in_templates()]
        for known in matches(key, texts)
        if not placeholders(texts.page[known]) <= values and ANY not in key and ANY not in values
    ]
    assert wrong == []


def test_languages_say_the_same() -> None:
    """All languages have the same keys with the same values."""
    english = catalogue("en")
    for language in LANGUAGES:
        other = catalogue(language)
        assert other.page.keys() == english.page.keys()
        assert {k: placeholders(v) for k, v in other.page.items()} == {
            k: placeholders(v) for k, v in english.page.items()
        }


def test_reasons_decisions_and_outcomes_have_words(texts: Catalogue) -> None:
    """Every code, decision and outcome can be said, each with the values that it has."""
    assert texts.reason.keys() == CODES.keys()
    assert {code: placeholders(text) for code, text in texts.reason.items()} == {
        code: set(values) for code, values in CODES.items()
    }
    assert set(texts.decision) == set(get_args(Decision))
    assert set(texts.claim) == set(get_args(Claim))
    assert {name: placeholders(text) for name, text in texts.line.items()} == {
        name: placeholders(text) for name, text in catalogue().line.items()
    }
    assert {f"outcome-{status}" for status in get_args(Status)} <= texts.page.keys()


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
