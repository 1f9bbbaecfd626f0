"""How this build counts: timings, metrics and trace lines agree as `engine.decodes` says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.engine import decodes, log_reader
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.errors import EngineError

Starter = Callable[..., EngineProcess]

PROMPTS = ("the model token cache", "def return ( ) : import")
REPLAYS = "--spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 12"


def complete(
    client: Client, ids: tuple[int, ...], n: int, temperature: float = 0.0
) -> tuple[dict[str, int], dict[str, float]]:
    """Return the request's timings and what it added to the metrics."""
    before = client.metrics()
    request = CompletionRequest(prompt=ids, n_predict=n, temperature=temperature, seed=7)
    timings = client.completion(request).timings
    delta = {name: value - before.get(name, 0) for name, value in client.metrics().items()}
    counts = {
        "prompt_n": timings.prompt_n,
        "predicted_n": timings.predicted_n,
        "drafted": timings.draft_n or 0,
        "accepted": timings.draft_n_accepted or 0,
    }
    return counts, delta


def all_requests(server: EngineProcess, temperature: float) -> list[tuple[dict[str, int], dict[str, float]]]:
    with Client(server.url) as client:
        rendered = [client.apply_template([{"role": "user", "content": text}]) for text in PROMPTS]
        ids = [client.tokenize(text, parse_special=True, add_special=True) for text in rendered]
        return [complete(client, each, 120, temperature) for each in ids]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(
    ("spec", "flags", "replays"),
    [
        ("", "", False),
        ("draft-mtp", "--spec-draft-n-max 3", False),
        ("ngram-simple", REPLAYS, True),
        ("draft-mtp,ngram-simple", REPLAYS, True),
    ],
)
def test_decodes_add_up(
    start_embedded: Starter, spec: str, flags: str, replays: bool, temperature: float
) -> None:
    """Decodes = the prompt's + predicted − 1 − accepted, replays included; drafts are counted once."""
    server = start_embedded(*flags.split(), spec=spec, trace=True)
    measured = all_requests(server, temperature)
    server.stop()
    logs = log_reader.requests(Path(server.log_path).read_text(errors="replace").splitlines())
    assert len(logs) == len(measured)
    for log, (counts, delta) in zip(logs, measured, strict=True):
        steps = decodes.steps(counts["predicted_n"], counts["accepted"])
        prompt = decodes.prompt_decodes(counts["prompt_n"], checkpoints=True)
        assert delta["llamacpp:n_decode_total"] == prompt + steps
        assert delta["llamacpp:spec_decode_num_drafts_total"] == log.verify_steps
        assert (log.drafted, log.accepted) == (counts["drafted"], counts["accepted"])
        assert decodes.plain_steps(steps, log.verify_steps, log.replays) >= 0
        assert sum(log.accepted_per_pos) == log.accepted
    assert (sum(log.replays for log in logs) > 0) == replays


@pytest.mark.parametrize(
    ("flags", "lengths", "checkpoints"),
    [
        ("", (1, 4, 5, 516, 517, 1029), True),
        ("-ub 64 -b 128", (5, 69, 132, 200, 600), True),
        ("--ctx-checkpoints 0", (5, 600, 2049), False),
    ],
)
def test_prompt_decodes_can_be_computed(
    start_embedded: Starter, flags: str, lengths: tuple[int, ...], checkpoints: bool
) -> None:
    """The decodes of a prompt on a hybrid model follow from its length, -b, -ub and --ctx-checkpoints."""
    server = start_embedded(*flags.split())
    sizes = {"n_batch": 128, "n_ubatch": 64} if "-ub" in flags else {}
    with Client(server.url) as client:
        for length in lengths:
            counts, delta = complete(client, tuple(200 + i % 100 for i in range(length)), 3)
            prompt = delta["llamacpp:n_decode_total"] - decodes.steps(counts["predicted_n"], 0)
            assert prompt == decodes.prompt_decodes(length, checkpoints=checkpoints, **sizes), length


@pytest.mark.parametrize("n_max", [1, 3])
def test_ubatch_limit_of_drafts(start_embedded: Starter, n_max: int) -> None:
    """-ub 2 + n_max is enough for draft-mtp on a hybrid model; with one less the server aborts."""
    start_embedded("--spec-draft-n-max", str(n_max), "-ub", str(n_max + 2), spec="draft-mtp")
    with pytest.raises(EngineError, match="-ub is too small") as caught:
        start_embedded("--spec-draft-n-max", str(n_max), "-ub", str(n_max + 1), spec="draft-mtp")
    assert caught.value.outcome == "refused"
    assert "signal SIGABRT (6)" in caught.value.checked
