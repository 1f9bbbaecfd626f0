"""The prompt sets that ship with the project: what the matrix and the reports rely on."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_ngram.models.handbuilt.rule import rule_of_seed
from pytest_ngram.models.handbuilt.words import PHRASE_LENGTH, class_words

PROMPTS = Path(__file__).parents[3] / "fixtures" / "prompts"
SETS = ("general", "agentic", "instrument")
KINDS = {
    "general": ["short", "russian", "code", "long"],
    "agentic": ["code", "terminal", "ssh", "edit"],
    "instrument": ["en", "ru", "code", "phrase"],
}
PER_KIND = {"general": 5, "agentic": 3, "instrument": 1}
SET_KEYS = {"set", "system", "prompts"}
PROMPT_KEYS = {"id", "kind", "messages"}
CONFIG_WORDS = {
    "none",
    "mtp",
    "ngram",
    "cache",
    "table",
    "simple",
    "map",
    "mod",
    "draft",
    "stack",
    "first",
    "last",
}
JSON_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((PROMPTS / f"{name}.yaml").read_text(encoding="utf-8"))


def prompts(name: str) -> list[dict[str, Any]]:
    return load(name)["prompts"]


def schemas() -> list[dict[str, Any]]:
    return json.loads((PROMPTS / "tools.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SETS)
def test_set_has_its_kinds_in_equal_number(name: str) -> None:
    """20, 12 and 4 prompts: each kind of a set as often as the others."""
    counts = Counter(prompt["kind"] for prompt in prompts(name))
    assert counts == dict.fromkeys(KINDS[name], PER_KIND[name])


@pytest.mark.parametrize("name", SETS)
def test_first_four_are_one_of_each_kind(name: str) -> None:
    """A profile that takes only the head of a set still sees every kind."""
    assert [prompt["kind"] for prompt in prompts(name)[:4]] == KINDS[name]


@pytest.mark.parametrize("name", SETS)
def test_files_hold_the_agreed_keys_and_nothing_else(name: str) -> None:
    """A strict decoder takes the file: no key too many, none missing, none of another type."""
    document = load(name)
    extra = {"tools"} if name == "agentic" else set()
    assert document["set"] == name
    assert set(document) == SET_KEYS | extra
    for prompt in document["prompts"]:
        assert set(prompt) == PROMPT_KEYS | extra, prompt["id"]
        assert prompt["messages"][-1]["role"] == "user", prompt["id"]
        for message in prompt["messages"]:
            assert set(message) == {"role", "content"}, prompt["id"]
            assert message["role"] in {"user", "assistant"}, prompt["id"]
            assert isinstance(message["content"], str), prompt["id"]
            assert message["content"].strip(), prompt["id"]


def test_ids_are_unique_over_all_sets() -> None:
    """A prompt id alone names a prompt."""
    counts = Counter(prompt["id"] for name in SETS for prompt in prompts(name))
    assert [name for name, count in counts.items() if count > 1] == []


def test_ids_select_no_config() -> None:
    """`pytest -k mtp` picks a config: no prompt id contains a word that names one."""
    for prompt_id in (prompt["id"] for name in SETS for prompt in prompts(name)):
        assert re.fullmatch(r"[a-z0-9-]+", prompt_id)
        assert [word for word in CONFIG_WORDS if word in prompt_id] == [], prompt_id


def test_one_system_prompt_for_text_and_none_for_the_instrument() -> None:
    """All configs answer under the same system prompt; the hand-built model gets words of its class only."""
    assert load("general")["system"] == load("agentic")["system"]
    assert load("general")["system"].strip()
    assert load("instrument")["system"] == ""


def test_general_prompts_are_what_their_kind_says() -> None:
    """Russian prompts are in Russian, short ones are short, and three or more long ones exceed 250 words."""
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS["general"]}
    for prompt in prompts("general"):
        by_kind[prompt["kind"]].append(prompt["messages"][-1]["content"])
    for text in by_kind["russian"]:
        assert len(re.findall("[а-яё]", text.lower())) > len(re.findall("[a-z]", text.lower()))
    assert max(len(text.split()) for text in by_kind["short"]) <= 40
    assert sum(len(text.split()) > 250 for text in by_kind["long"]) >= 3


def test_tools_named_by_prompts_exist() -> None:
    """Each agentic prompt offers at least two tools, none twice, all of them from the set's file."""
    known = {entry["function"]["name"] for entry in schemas()}
    assert load("agentic")["tools"] == "tools.json"
    for prompt in prompts("agentic"):
        assert len(set(prompt["tools"])) == len(prompt["tools"]) >= 2, prompt["id"]
        assert set(prompt["tools"]) <= known, prompt["id"]


def test_every_tool_is_offered_somewhere() -> None:
    """No dead schema: a tool of the file is offered by at least one prompt."""
    offered = {tool for prompt in prompts("agentic") for tool in prompt["tools"]}
    assert {entry["function"]["name"] for entry in schemas()} == offered


@pytest.mark.parametrize("entry", schemas(), ids=lambda entry: entry["function"]["name"])
def test_tool_is_a_function_schema(entry: dict[str, Any]) -> None:
    """A chat template can render the tool: name, description, typed properties, and `required` among them."""
    assert set(entry) == {"type", "function"}
    assert entry["type"] == "function"
    function = entry["function"]
    assert set(function) == {"name", "description", "parameters"}
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", function["name"])
    assert function["description"].strip()
    parameters = function["parameters"]
    assert parameters["type"] == "object"
    assert parameters["properties"]
    assert set(parameters["required"]) <= set(parameters["properties"])
    for name, schema in parameters["properties"].items():
        assert schema["type"] in JSON_TYPES, name
        assert schema["description"].strip(), name


def test_tool_names_are_unique() -> None:
    """A tool's name stands for one schema."""
    names = [entry["function"]["name"] for entry in schemas()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("prompt", prompts("instrument"), ids=lambda prompt: prompt["id"])
def test_instrument_prompt_is_words_of_its_class(prompt: dict[str, Any]) -> None:
    """Each word, with its leading space, is one token of the class that the prompt's kind names."""
    (message,) = prompt["messages"]
    spoken = re.findall(r" [^ ]+", message["content"])
    assert "".join(spoken) == message["content"]
    assert set(spoken) <= set(class_words()[prompt["kind"]])


def test_instrument_phrase_is_one_whole_phrase() -> None:
    """The phrase prompt ends with a phrase's closing word, which is what sets the register to that phrase."""
    (content,) = [p["messages"][0]["content"] for p in prompts("instrument") if p["kind"] == "phrase"]
    spoken = tuple(re.findall(r" [^ ]+", content))
    words = class_words()["phrase"]
    assert spoken in {words[i : i + PHRASE_LENGTH] for i in range(0, len(words), PHRASE_LENGTH)}


@pytest.mark.parametrize("prompt", prompts("instrument"), ids=lambda prompt: prompt["id"])
def test_instrument_prompt_is_continued_in_its_class(prompt: dict[str, Any]) -> None:
    """After the prompt and a transparent token, as a chat template leaves it, the rule stays in the class."""
    rule = rule_of_seed(1)
    spoken = re.findall(r" [^ ]+", prompt["messages"][0]["content"])
    end = rule.vocabulary.tokens.index("<|im_end|>")
    ids = [*(rule.vocabulary.word_id(word) for word in spoken), end]
    said = rule.continuation(ids, 200)
    assert {rule.class_of(token) for token in said} == {prompt["kind"]}
