"""The gates of a matrix: what its section may say, and which cases follow."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.gates import Over, abstains_of, cases, policy

TEXT = """
version: 1
warmup: w
models:
  real: {path: a.gguf, prompt_sets: [chat]}
  made: {generate: {target: 0.7}}
configs:
  none: {}
  mtp1: {types: [draft-mtp], identity: self}
  cache: {types: [ngram-cache]}
prompt_sets: {chat: {path: c.yaml}, words: {path: w.yaml}}
profiles: {smoke: {blocks: 1, n_predict: 8}}
gates: {prompts: {chat: 2}}
"""
PROMPTS = {"chat": ["a", "b", "c"], "words": ["x", "y"]}


def ids(text: str, over: Over, *models: str) -> list[str]:
    matrix = decode_matrix(text, "matrix.yaml")
    return [case.id for case in cases(matrix, models or tuple(matrix.models), PROMPTS, over)]


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("model", ["real/none"]),
        ("model/prompt", ["real/none/a", "real/none/b"]),
        ("config", ["real/none", "real/mtp1", "real/cache"]),
        ("drafting", ["real/mtp1", "real/cache"]),
        ("drafting/prompt", ["real/mtp1/a", "real/mtp1/b", "real/cache/a", "real/cache/b"]),
        ("some", ["real/none/a", "real/mtp1/a", "real/cache/a"]),
        ("later", ["real/none/b", "real/mtp1/b", "real/cache/b"]),
        ("rule", []),
    ],
)
def test_cases_of_a_real_model(over: Over, found: list[str]) -> None:
    """Each gate gets its cases; prompts are the first of each set, in its order."""
    assert ids(TEXT, over, "real") == found


def test_the_hand_built_model_is_asked_for_every_prompt() -> None:
    """It costs next to nothing, and alone has a rule."""
    assert len(ids(TEXT, "rule")) == 3 * 4
    assert ids(TEXT, "rule", "made") == ids(TEXT, "some", "made")


def test_models_and_configs_can_be_chosen() -> None:
    """The gates ask the models and configs that their section names."""
    chosen = TEXT.replace("gates: {", "gates: {models: [made], configs: [none, cache], ")
    assert ids(chosen, "config") == ["made/none", "made/cache"]


def test_policies() -> None:
    """The hand-built model is always strict; a config of another says for itself, near-ties being allowed."""
    matrix = decode_matrix(TEXT, "matrix.yaml")
    assert policy(matrix, "made", "mtp1") == "strict"
    assert policy(matrix, "real", "mtp1") == "self"
    assert policy(matrix, "real", "cache") == "near-tie"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gates: {", "gates: {models: [reel], ", "gates.models"),
        ("gates: {", "gates: {configs: [mtp2], ", "gates.configs"),
        ("gates: {prompts: {chat: 2}}", "gates: {prompts: {chats: 2}}", "gates.prompts.chats"),
        ("gates: {prompts: {chat: 2}}", "gates: {prompts: {chat: 0}}", "gates.prompts"),
        ("gates: {", "gates: {promts: {}, ", "gates.promts"),
        ("gates: {", "gates: {never_rejected: {real/mtp2: x}, ", "never_rejected.real/mtp2"),
        ("gates: {", "gates: {never_rejected: {real/mtp1: ' '}, ", "is empty"),
        ("types: [ngram-cache]", "types: [ngram-cache], identity: self", "configs.cache.identity"),
        ("identity: self", "identity: loose", "configs.mtp1.identity"),
    ],
)
def test_a_typo_is_told(old: str, new: str, said: str) -> None:
    """The error names the file, the key and what is allowed."""
    assert old in TEXT
    with pytest.raises(MatrixError, match=said):
        decode_matrix(TEXT.replace(old, new), str(Path("matrix.yaml")))


def test_a_config_that_no_model_of_the_gates_has_is_told() -> None:
    """It would be asked of nothing, and the run would be green without it."""
    text = TEXT.replace("generate: {target: 0.7}", "generate: {target: 0.7}, configs: [none, mtp1]")
    text = text.replace("gates: {", "gates: {models: [made], configs: [none, mtp1, cache], ")
    with pytest.raises(MatrixError, match=r"gates\.configs\[2\]: 'cache' is a config of no model"):
        decode_matrix(text, "matrix.yaml")
    assert decode_matrix(text.replace("models: [made]", "models: [made, real]"), "matrix.yaml")


@pytest.mark.parametrize(
    ("said", "types", "expected"),
    [
        ({}, ["ngram-mod"], None),
        ({"c": "short"}, ["ngram-mod"], "short"),
        ({"c": {"ngram-mod": "short"}}, ["draft-mtp", "ngram-mod"], None),
        ({"c": {"ngram-mod": "short", "ngram-cache": "new"}}, ["ngram-cache", "ngram-mod"], "new; short"),
    ],
)
def test_a_stack_abstains_only_as_a_whole(
    said: dict[str, object], types: list[str], expected: str | None
) -> None:
    """A stack of which one type is to draft has to draft."""
    text = yaml.safe_dump(
        {
            "version": 1,
            "warmup": "w",
            "models": {"m": {"path": "m.gguf", "abstains": said}},
            "configs": {"none": {}, "c": {"types": types}},
            "prompt_sets": {"p": {"path": "p.yaml"}},
            "profiles": {"smoke": {"blocks": 1, "n_predict": 8}},
        }
    )
    assert abstains_of(decode_matrix(text, "matrix.yaml"), "m", "c") == expected
