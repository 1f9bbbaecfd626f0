"""Goldens: what is compared with what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_ngram.judge import golden
from pytest_ngram.judge.golden import Asked, Fingerprint, Golden, PromptFile, Text
from pytest_ngram.judge.identity import Seen
from pytest_ngram.judge.types import Answer, Margin

Make = Callable[..., Answer]
HERE = Fingerprint(model="abc", family="xllamacpp", isa=("CPU", "AVX2"), threads=1)
UPDATE = "pytest gates --gates-update"


def stored(print_: Fingerprint = HERE, ids: tuple[int, ...] = tuple(range(60)), **changes: Any) -> Golden:
    values = {"made_with": "old", "fingerprint": print_, "n_predict": 60, "texts": {"p": Text("t", ids)}}
    return Golden(**values | changes)


def judged(answer: Answer, *files: Golden, strict: bool = False, **known: Any) -> tuple[str, str | None, str]:
    asked = Asked(answer=answer, fingerprint=HERE, n_predict=60, update=UPDATE, strict=strict)
    expected = golden.chosen(asked, files) or ()
    verdict = golden.judge(asked, files, Seen(expected=expected, got=answer.tokens, **known))
    return verdict.status, verdict.kind, verdict.text


def test_equal_ids_pass(answer: Make) -> None:
    """The same ids under the same fingerprint are the one way to pass."""
    assert judged(answer(), stored())[:2] == ("passed", None)


def test_none_stored_fails_with_the_command(answer: Make) -> None:
    """Neither no file, nor one without the prompt, nor one of another model is a pass."""
    for files in ((), (stored(texts={}),), (stored(Fingerprint(model="other")),)):
        status, kind, text = judged(answer(), *files)
        assert (status, kind) == ("failed", "none stored")
        assert UPDATE in text


@pytest.mark.parametrize(
    ("known", "status", "kind"),
    [
        ({}, "failed", "logic fault"),
        ({"margin": Margin(0, 1, 0.1), "bound": 0.2}, "failed", "numeric near-tie"),
        ({"prompts": False}, "cannot compare", "prompt changed"),
    ],
)
def test_other_ids_have_their_class(answer: Make, known: dict[str, Any], status: str, kind: str) -> None:
    """A difference is classed by the table of identity, and a near-tie is no excuse under one fingerprint."""
    found = judged(answer(tokens=(1, *range(1, 60))), stored(), **known)
    assert found[:2] == (status, kind)


@pytest.mark.parametrize(
    "field", [f.name for f in msgspec.structs.fields(Fingerprint) if f.name not in ("model", "family")]
)
def test_a_golden_does_not_retire_itself(answer: Make, field: str) -> None:
    """Whichever field changed under an engine is named, and the gate fails with the command for a new one."""
    other = msgspec.structs.replace(HERE, **{field: "other" if field[0] in "fc" else (77,)})
    for tokens in (tuple(range(60)), (1, *range(1, 60))):
        status, kind, text = judged(answer(tokens=tokens), stored(other))
        assert (status, kind) == ("failed", "another fingerprint")
        assert f"{field}: stored" in text
        assert ("the two texts are the same" in text) == (tokens[0] == 0)
        assert UPDATE in text


def test_another_family_cannot_be_compared(answer: Make) -> None:
    """An engine that never had a golden is told where the texts part, and the lead; strictly it fails."""
    other = msgspec.structs.replace(HERE, family="other", isa=("CPU",))
    tokens, known = (1, *range(1, 60)), {"margin": Margin(0, 1, 0.1), "bound": 0.01}
    for strict, wanted in ((False, "cannot compare"), (True, "failed")):
        status, kind, text = judged(answer(tokens=tokens), stored(other), strict=strict, **known)
        assert (status, kind) == (wanted, "another fingerprint")
        assert "family: stored other, here xllamacpp" in text
        assert "first difference at token 0" in text
        assert "led with 0 by 0.100000 nats over its runner-up 1" in text
        assert UPDATE in text


def test_the_own_family_is_the_nearest(answer: Make) -> None:
    """Although more fields differ: only its golden may not retire."""
    other = msgspec.structs.replace(HERE, family="other")
    own = msgspec.structs.replace(HERE, isa=("CPU",), threads=9)
    status, _, text = judged(answer(), stored(other), stored(own))
    assert status == "failed"
    assert "threads: stored 9, here 1" in text


def test_another_length_is_not_compared(answer: Make) -> None:
    """A golden of another n_predict says how to store one of this."""
    status, kind, text = judged(answer(), stored(n_predict=59, texts={"p": Text("t", tuple(range(59)))}))
    assert (status, kind) == ("failed", "another length")
    assert UPDATE in text


@pytest.mark.parametrize(
    ("file", "status", "kind"),
    [
        (None, "failed", "none stored"),
        (PromptFile(made_with="old", model="abc", prompts={}), "failed", "none stored"),
        (PromptFile(made_with="old", model="abd", prompts={"p": (1,)}), "failed", "another model file"),
        (PromptFile(made_with="old", model="abc", prompts={"p": (1,)}), "failed", "prompt changed"),
        (PromptFile(made_with="old", model="abc", prompts={"p": tuple(range(20))}), "passed", None),
    ],
)
def test_prompt_ids(answer: Make, file: PromptFile | None, status: str, kind: str | None) -> None:
    """Stored prompt ids must be there, of this model, and equal."""
    verdict = golden.judge_prompt(file, answer(), "abc", UPDATE)
    assert (verdict.status, verdict.kind) == (status, kind)
