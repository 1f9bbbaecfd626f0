"""A quick look at a model of which nothing is known: one start without speculation, and one short request."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import BASELINE, MatrixSpec
from pytest_ngram.matrix.timings import Gathered
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers

PROMPT_TOKENS = 128
TOKENS = 32

# By prompt id: messages, and tool schemas.
Chats = Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]]


def probe(model: str, matrix: MatrixSpec, servers: Servers, gathered: Gathered, chats: Chats) -> str:
    """Measure one start and one request of a model; return what was seen, to be said.

    The prompt is the warm-up text over and over, which is no measured prompt: of those only the length is
    found out, by template and tokenizer, and nothing is asked.

    Args:
        servers: its `on_start` gives each start to `gathered`.
        gathered: gets the request, and the lengths of the prompts.
        chats: the prompts that will be measured.

    Raises:
        NgramError: the model cannot be opened or served, or refuses.
    """
    server = servers.serve(Start(model=model, config=BASELINE, temperature=0.0, block=0, position=0), None)
    try:
        with server.failing_fast():
            ids = server.client.tokenize(matrix.warmup, parse_special=False, add_special=True)
            prompt = tuple(itertools.islice(itertools.cycle(ids), PROMPT_TOKENS))
            request = CompletionRequest(prompt=prompt, n_predict=TOKENS, temperature=0.0, seed=1)
            round_ = measure(server, request, hang_after_s=matrix.hang_after_s)
            lengths, refused = _lengths(server, chats)
    finally:
        server.stop()
    gathered.add_round(model, BASELINE, None, round_)
    for name, prompt_n in lengths.items():
        gathered.add_prompt(model, name, prompt_n)
    seen = _rates(gathered, model)
    return ", ".join(
        [*seen, f"{refused} of {len(chats)} prompts refused by the template"] if refused else seen
    )


def _lengths(server: Server, chats: Chats) -> tuple[dict[str, int], int]:
    """The tokens of each prompt as it will be sent, and how many the model's template refuses."""
    lengths, refused = {}, 0
    for name, (messages, tools) in chats.items():
        try:
            text = server.client.apply_template(messages, tools or None)
        except EngineError as error:
            if error.outcome != "refused":
                raise
            refused += 1
            continue
        lengths[name] = len(server.client.tokenize(text, parse_special=True, add_special=True))
    return lengths, refused


def _rates(gathered: Gathered, model: str) -> list[str]:
    timing = gathered.models[model].configs[BASELINE]
    rates = (("pp", timing.prompt_n, timing.prompt_s), ("tg", timing.later_n, timing.predicted_s))
    return [f"load {timing.load_s:.1f} s", *(f"{name} {n / s:.1f} t/s" for name, n, s in rates if s)]
