"""Identity on the instrument: whatever drafts, the hand-built model gives the text that its rule computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.models.handbuilt import rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_ngram.matrix.prompts import PromptSet
    from pytest_ngram.measure.server import Server
    from pytest_ngram.session import Session

MODEL = "tiny-moe"
N_PREDICT = 256
CONFIGS = (
    "none",
    "mtp1",
    "mtp2",
    "mtp3",
    "ngram-simple",
    "ngram-cache",
    "ngram-cache+table",
    "mtp1+ngram-simple",
)


@pytest.mark.parametrize("prompt", ["word-en", "word-ru", "word-code", "word-phrase"])
@pytest.mark.parametrize("llama_server", [f"{MODEL}/{config}" for config in CONFIGS], indirect=True)
def test_text_is_the_rules(
    llama_server: Server, ngram_session: Session, prompt_set: Callable[[str], PromptSet], prompt: str
) -> None:
    """Every generated id is the rule's, on a server that has answered other prompts before."""
    spec = ngram_session.setup.matrix.models[MODEL].generate
    assert spec is not None
    found = prompt_set("instrument")
    (asked,) = [candidate for candidate in found.prompts if candidate.id == prompt]
    client = llama_server.client
    text = client.apply_template(found.chat(asked))
    ids = client.tokenize(text, parse_special=True, add_special=True)
    answer = client.completion(CompletionRequest(prompt=ids, n_predict=N_PREDICT, temperature=0.0, seed=1))
    expected = rule(handbuilt_spec(spec)).continuation(ids, N_PREDICT)
    differs = [i for i, pair in enumerate(zip(answer.tokens, expected, strict=True)) if pair[0] != pair[1]]
    assert differs == [], f"first difference at token {differs[0]}"
