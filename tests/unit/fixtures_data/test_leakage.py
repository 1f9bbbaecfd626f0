"""The demo corpus and the prompts that ship with it, by the check that every bench with a table makes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import read_corpus
from pytest_ngram.corpus.leakage import Found, Ids, find, leak
from pytest_ngram.matrix.prompts import PromptSet, decode_prompt_set
from pytest_ngram.matrix.spec import LeakageSpec

FIXTURES = Path(__file__).parents[3] / "fixtures"
# A word, or signs without a space between, is one id here: a run has fewer of these than tokens of a model.
BOUNDS = LeakageSpec(max_run_tokens=12, max_share=0.1)


@cache
def sets() -> dict[str, PromptSet]:
    names = [path.stem for path in (FIXTURES / "prompts").glob("*.yaml")]
    return {
        name: decode_prompt_set(
            (FIXTURES / "prompts" / f"{name}.yaml").read_text(encoding="utf-8"),
            name,
            name=name,
            words=frozenset(),
        )
        for name in names
    }


@cache
def texts() -> tuple[str, ...]:
    return tuple(message.content for message in read_corpus(FIXTURES / "corpus" / "demo.jsonl").messages)


def words(text: str, number: dict[str, int]) -> Ids:
    cut = re.findall(r"\w+|[^\w\s]+", text)
    return np.array([number.setdefault(word, len(number)) for word in cut], dtype=np.int32)


@cache
def found(added: str = "") -> dict[str, Found]:
    """What of each shipped prompt is in the demo corpus, with a message added to it."""
    number: dict[str, int] = {}
    messages = [words(text, number) for text in (*texts(), added)]
    prompts = {
        prompt.id: [words(turn.content, number) for turn in prompt.messages if turn.role != "system"]
        for each in sets().values()
        for prompt in each.prompts
    }
    return dict(zip(prompts, find(list(prompts.values()), messages), strict=True))


def leaks(of: dict[str, Found]) -> set[str]:
    bounds = {"max_run_tokens": BOUNDS.max_run_tokens, "max_share": BOUNDS.max_share}
    return {prompt for prompt, each in of.items() if leak(each.run, each.share, **bounds)}


def test_no_shipped_prompt_is_in_the_demo_corpus() -> None:
    """What the shipped matrix measures with the demo table was not read out of it."""
    assert sets().keys() == {"general", "agentic", "instrument"}
    assert leaks(found()) == set()
    assert max(each.run or 0 for each in found().values()) >= 4, "the check reads real text, and finds idioms"
    assert all(not each.exact and not each.near for each in found().values())


@pytest.mark.parametrize("name", ["general", "agentic"])
def test_a_copy_of_one_would_be_seen(name: str) -> None:
    """One prompt put into the corpus is found, and no other."""
    prompt = sets()[name].prompts[-1]
    (turn,) = [turn.content for turn in prompt.messages if turn.role == "user"][:1]
    assert leaks(found(f"Somebody asked: {turn}")) == {prompt.id}
