"""How this build counts: timings, metrics and trace lines agree as `engine.decodes` says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.engine import capabilities, decodes, log_reader
from pytest_ngram.engine.build import OF_REQUESTS
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.errors import EngineError
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Kind, Server
from pytest_ngram.record import Round

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
        assert steps >= log.verify_steps + log.replays
        assert sum(log.accepted_per_pos) == log.accepted
    assert (sum(log.replays for log in logs) > 0) == replays


def a_server(launch: Callable[[], EngineProcess], said: list[str], *, speculative: bool = True) -> Server:
    """A server as cells have it, warmed up by a prompt that is none of `PROMPTS`."""

    def warm_up(server: Server) -> int:
        ids = server.client.tokenize("router expert", parse_special=False, add_special=True)
        result = server.client.completion(CompletionRequest(prompt=ids, n_predict=8, temperature=0.0, seed=1))
        taken = server.logs.take()
        server.saw(capabilities.observe(server.client, result, taken.lines if taken else None))
        return 1

    return Server(
        Kind(
            stateful=False,
            speculative=speculative,
            prompt_decodes=lambda prompt_n: decodes.prompt_decodes(prompt_n, checkpoints=True),
            launch=launch,
            warm_up=warm_up,
            warn=said.append,
            warn_once=said.append,
        )
    )


def rounds_of(server: Server, temperature: float) -> list[Round]:
    rounds = []
    for text in PROMPTS:
        rendered = server.client.apply_template([{"role": "user", "content": text}])
        ids = server.client.tokenize(rendered, parse_special=True, add_special=True)
        request = CompletionRequest(prompt=ids, n_predict=120, temperature=temperature, seed=7)
        rounds.append(measure(server, request, hang_after_s=60.0))
    return rounds


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(
    ("spec", "flags", "order"),
    [
        ("draft-mtp", "--spec-draft-n-max 3", ["draft-mtp"]),
        ("ngram-simple", REPLAYS, ["ngram-simple"]),
        ("draft-mtp,ngram-simple", REPLAYS, ["ngram-simple", "draft-mtp"]),
        ("draft-mtp,ngram-mod", "", ["ngram-mod", "draft-mtp"]),
    ],
)
def test_types_add_up(
    start_embedded: Starter, spec: str, flags: str, order: list[str], temperature: float
) -> None:
    """What each type drafted adds up to the request's own counts, the warm-up taken off, replays included."""
    said: list[str] = []
    server = a_server(lambda: start_embedded(*flags.split(), spec=spec, trace=True), said)
    for round_ in rounds_of(server, temperature):
        assert round_.by_type is not None
        assert list(round_.by_type) == order
        types = list(round_.by_type.values())
        assert sum(each.drafted for each in types) == round_.drafted
        assert sum(each.drafts for each in types) == round_.verify_steps
        assert all(each.calls >= each.drafts for each in types)
        accepted = [each.accepted for each in types]
        if None not in accepted:
            assert sum(each or 0 for each in accepted) == round_.accepted
        else:
            assert round_.replays
            assert len([each for each in types if each.drafted]) > 1
    assert said == []


def test_what_a_build_has_is_learnt_from_its_answers(start_embedded: Starter) -> None:
    """The warm-up shows what it can; what only a draft can show is known after the first draft."""
    said: list[str] = []
    server = a_server(lambda: start_embedded("--spec-draft-n-max", "1", spec="draft-mtp", trace=True), said)
    rounds_of(server, 0.0)
    seen = server.describe().capabilities
    assert {name: seen[name] for name in OF_REQUESTS} == dict.fromkeys(OF_REQUESTS, True)
    quiet = a_server(lambda: start_embedded(trace=True), said, speculative=False)
    rounds_of(quiet, 0.0)
    known = quiet.describe().capabilities
    assert known["n-decode-total"]
    assert not {"timings-drafts", "trace-lines", "per-position-counts"} & known.keys()
    assert said == []


def test_a_build_without_metrics_is_measured_and_told(start_faulty: Starter) -> None:
    """No /metrics: times are measured, counts are null, and one line says what is not offered."""
    said: list[str] = []
    server = a_server(lambda: start_faulty("ok"), said)
    request = CompletionRequest(prompt=(1, 2, 3), n_predict=2, temperature=0.0, seed=1)
    rounds = [measure(server, request, hang_after_s=60.0) for _ in range(2)]
    for round_ in rounds:
        assert (round_.predicted_n, round_.predicted_ms) == (2, 1.0)
        assert (round_.drafted, round_.accepted, round_.n_decode, round_.by_type) == (None,) * 4
    (line,) = set(said)
    assert line.startswith("not offered by this build (faulty 1): /metrics: n_decode is null")
    assert server.describe().capabilities["metrics"] is False


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
