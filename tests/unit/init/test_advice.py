"""What is worth running on a model, told by its file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_ngram.init.advice import Host, advise, model_id
from pytest_ngram.init.matrix_text import TABLE_CONFIG
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.names import config_words
from pytest_ngram.models.gguf_file import ModelFacts, inspect
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.shipped import shipped

GIB = 2**30
HOST = Host(cores=4, available_bytes=8 * GIB)
MATRIX = decode_matrix(shipped("matrix.yaml").read_text(encoding="utf-8"), "matrix.yaml")
WORDS = config_words([*MATRIX.configs, TABLE_CONFIG])


@pytest.fixture(scope="module")
def facts(session_cache: Path) -> ModelFacts:
    """Of the hand-built model: an MTP block, three recurrent layers, a template that takes tools."""
    return inspect(generate(HandBuiltSpec(), session_cache / "models"))


def changed(facts: ModelFacts, **values: object) -> ModelFacts:
    return type(facts)(**{**vars(facts), **values})


def test_an_mtp_block_means_mtp_configs(facts: ModelFacts) -> None:
    """With the block n_max 1, 2 and 3 and a stack are run; without it, context-only types."""
    assert advise(facts, HOST, None).configs == (
        "none", "mtp1", "mtp2", "mtp3", "ngram-simple", "mtp1+ngram-simple",
    )  # fmt: skip
    plain = changed(facts, nextn=0, kv_heads=facts.kv_heads[: facts.n_layer])
    assert advise(plain, HOST, None).configs == ("none", "ngram-simple", "ngram-map-k4v")


def test_a_table_comes_with_its_control(facts: ModelFacts) -> None:
    """What chats add is told against the same lookup without a table, so that one runs too."""
    configs = advise(facts, HOST, TABLE_CONFIG).configs
    assert configs[-2:] == ("ngram-cache", TABLE_CONFIG)


def test_tools_need_a_template_that_takes_them(facts: ModelFacts) -> None:
    """The agentic set, and the context that it wants, only where the template speaks of tools."""
    with_tools = advise(facts, HOST, None)
    assert with_tools.prompt_sets == ("general", "agentic")
    assert with_tools.flags == "-c 8192 -t 4"
    for template in (None, "{{ messages }}"):
        without = advise(changed(facts, chat_template=template), HOST, None)
        assert without.prompt_sets == ("general",)
        assert without.flags == "-c 4096 -t 4"


def test_the_context_is_no_longer_than_the_models(facts: ModelFacts) -> None:
    """Text beyond what the model was trained for is not to be trusted."""
    assert advise(changed(facts, n_ctx_train=2048), HOST, None).flags.startswith("-c 2048 ")


def test_a_small_host_gets_a_small_cache(facts: ModelFacts) -> None:
    """Where the full cache fills half of what is free, a quantised one is taken, if the heads allow it."""
    big = changed(facts, key_length=64, value_length=64)
    full = advise(big, HOST, None)
    assert "-ctk" not in full.flags
    tight = Host(cores=4, available_bytes=full.need_bytes)
    small = advise(big, tight, None)
    assert small.flags == "-c 8192 -t 4 -fa on -ctk q8_0 -ctv q8_0"
    assert small.need_bytes < full.need_bytes
    odd = advise(changed(facts, key_length=20, value_length=20), tight, None)
    assert "-ctk" not in odd.flags


def test_what_is_advised_is_in_the_shipped_matrix(facts: ModelFacts) -> None:
    """Each config and prompt set that may be named has a definition there."""
    for nextn in (0, 1):
        advice = advise(
            changed(facts, nextn=nextn, kv_heads=facts.kv_heads[: facts.n_layer + nextn]), HOST, None
        )
        assert set(advice.configs) <= set(MATRIX.configs)
        assert set(advice.prompt_sets) <= set(MATRIX.prompt_sets)


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("Qwen3.6-35B-A3B-IQ3_XXS", "qwen3.6-35b-a3b-iq3_xxs"),
        ("Qwen3.6-35B-A3B-MTP-IQ3_XXS-00001-of-00002", "qwen3.6-35b-a3b-iq3_xxs"),
        ("SmolLM2-135M-Instruct.Q4_1", "smollm2-135m-instruct.q4_1"),
        ("my model (new)", "my-new"),  # `model` holds `mod`, as `ngram-mod` does
        ("mtp", "own-weights"),
        ("модель", "own-weights"),
        ("x" * 99, "x" * 48),
    ],
)
def test_ids_hold_no_config_word(stem: str, expected: str) -> None:
    """A model id can be typed, and `-k` with a config's word never picks it."""
    name = model_id(stem, WORDS)
    assert name == expected
    assert not any(word in name for word in WORDS)


def test_the_shipped_matrix_agrees_with_the_projects_own() -> None:
    """A config, warm-up or seed of one name means the same in both."""
    path = Path(__file__).parents[3] / "bench" / "matrix.yaml"
    own = decode_matrix(path.read_text(encoding="utf-8"), path.name)
    both = set(MATRIX.configs) & set(own.configs)
    assert len(both) >= 10
    for name in both:
        assert MATRIX.configs[name] == own.configs[name], name
    assert (MATRIX.warmup, MATRIX.seed) == (own.warmup, own.seed)
    sizes = {name: msgspec.structs.replace(p, configs=None) for name, p in own.profiles.items()}
    assert MATRIX.profiles == {name: sizes[name] for name in ("smoke", "full")}
