"""The client against the real embedded server."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.errors import EngineError

Starter = Callable[..., EngineProcess]

MESSAGES = [{"role": "user", "content": "the model"}]


def request(ids: tuple[int, ...], n: int, **extra: object) -> CompletionRequest:
    return CompletionRequest(prompt=ids, n_predict=n, temperature=0, seed=1, extra=extra)


def test_tokens_round_trip(client: Client) -> None:
    """Text to ids and back gives the text."""
    ids = client.tokenize("the model expert", parse_special=False, add_special=False)
    assert client.detokenize(ids) == "the model expert"


def test_control_tokens_are_text_in_a_corpus(client: Client) -> None:
    """With `parse_special=False` a control token written in the text is many ids, else one."""
    as_text = client.tokenize("<|im_end|>", parse_special=False, add_special=False)
    as_token = client.tokenize("<|im_end|>", parse_special=True, add_special=False)
    assert len(as_token) == 1 < len(as_text)


def test_template_renders(client: Client) -> None:
    """Messages are rendered with the model's template, ready for the assistant's turn."""
    text = client.apply_template(MESSAGES)
    assert "the model" in text
    assert text.rstrip().endswith("assistant")


TOOLS = [{"type": "function", "function": {"name": "weather_of", "parameters": {"type": "object"}}}]


def test_template_without_tools_says_so(start_embedded: Starter) -> None:
    """A template with no place for tools is an error, not a prompt that silently lacks them."""
    server = start_embedded("--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}")
    with Client(server.url) as talking:
        assert not talking.template_takes_tools()
        with pytest.raises(EngineError, match="no place for tools"):
            talking.apply_template(MESSAGES, TOOLS)


def test_template_with_tools_renders_them(start_embedded: Starter) -> None:
    """Tool schemas stand in the prompt where the template has a place for them."""
    template = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    with Client(start_embedded("--chat-template", template).url) as talking:
        assert talking.template_takes_tools()
        assert "weather_of" in talking.apply_template(MESSAGES, TOOLS)


def test_bad_messages_carry_the_servers_message(client: Client) -> None:
    """Messages that the server cannot read give the server's own reason."""
    with pytest.raises(EngineError, match="Missing 'role'"):
        client.apply_template([{"content": "no role"}])


def test_completion_gives_ids_and_timings(client: Client) -> None:
    """A completion returns every generated id, and timings without drafts where nothing was drafted."""
    result = client.completion(request((300, 301, 302), 12))
    assert len(result.tokens) == result.timings.predicted_n == 12
    assert result.timings.prompt_n == 3
    assert result.timings.cache_n == 0
    assert result.timings.draft_n is None
    assert result.stop_type == "limit"


def test_prompt_cache_is_off(client: Client) -> None:
    """The same prompt twice is processed twice, to the same ids."""
    first, second = (client.completion(request((300, 301, 302, 303), 12)) for _ in range(2))
    assert second.timings.prompt_n == 4
    assert first.tokens == second.tokens


def test_extra_fields_reach_the_server(client: Client) -> None:
    """Fields given as `extra` are sent: `n_probs` brings probabilities."""
    result = client.completion(request((300, 301), 3, n_probs=2))
    assert len(result.completion_probabilities) == 3


def test_drafts_are_counted(start_embedded: Starter) -> None:
    """With a drafting type the timings say how much was drafted and accepted."""
    server = start_embedded("--spec-draft-n-max", "2", spec="draft-mtp")
    with Client(server.url) as talking:
        ids = talking.tokenize(talking.apply_template(MESSAGES), parse_special=True, add_special=True)
        timings = talking.completion(request(ids, 40)).timings
    assert timings.draft_n is not None
    assert timings.draft_n_accepted is not None
    assert 0 < timings.draft_n_accepted <= timings.draft_n


def test_invalid_ids_are_refused(client: Client) -> None:
    """Ids outside the vocabulary give the server's message and the outcome `refused`."""
    with pytest.raises(EngineError, match="invalid tokens") as caught:
        client.completion(request((10**8,), 2))
    assert caught.value.outcome == "refused"


def test_slots_and_metrics_and_props(client: Client, embedded: EngineProcess) -> None:
    """Progress, counters and properties are typed; the counters have the names that measuring needs."""
    before = client.metrics()
    client.completion(request((300, 301), 5))
    after = client.metrics()
    assert after["llamacpp:n_decode_total"] - before["llamacpp:n_decode_total"] == 5
    assert after["llamacpp:spec_decode_num_drafts_total"] == 0
    (slot,) = client.slots()
    assert not slot.is_processing
    assert client.props().total_slots == 1
    assert client.health()


def test_nobody_there_is_no_health_and_a_crash() -> None:
    """Where nobody listens, health is False and a request is a `crash`."""
    with Client("http://127.0.0.1:9") as nobody:
        assert not nobody.health()
        with pytest.raises(EngineError) as caught:
            nobody.slots()
    assert caught.value.outcome == "crash"


def test_description_names_the_build(embedded: EngineProcess) -> None:
    """The engine's record names package, version, build, library hash, flags and types."""
    engine = embedded.describe()
    assert engine.kind == "embedded"
    assert engine.package == "xllamacpp"
    assert engine.build is not None
    assert engine.build.startswith("b")
    assert engine.version is not None
    assert engine.version.endswith(engine.build[1:])
    assert engine.binary_sha256 is not None
    assert len(engine.binary_sha256) == 64
    assert engine.argv == embedded.argv
    assert {"draft-mtp", "ngram-simple", "ngram-cache"} <= set(engine.spec_types)


AWKWARD = [
    *("", " ", "\n", "\t the model", "the", " model", "expert\n", "\n\nexpert", "the model expert " * 5000),
    *("<|im_end|>", "<|im_start|>user", "</s>", "<eos>", "<|", "im_end|>", "-1", "é", "\u0301", "🙂", "a\0b"),
]


def test_many_texts_are_tokenized_as_if_alone(client: Client) -> None:
    """Texts that share requests get the ids of single ones: no seam, no BOS, control tokens stay text."""
    many = client.tokenize_many(AWKWARD)
    alone = [client.tokenize(text, parse_special=False, add_special=False) for text in AWKWARD]
    assert [tuple(ids.tolist()) for ids in many] == alone
    assert client.tokenize_many([]) == []


def test_many_texts_go_in_few_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """This build keeps the texts of one request apart, so that 1000 of them are no 1000 requests."""
    sent: list[str] = []
    real = client._call

    def noted(method: str, path: str, **options: Any) -> httpx.Response:
        sent.append(path)
        return real(method, path, **options)

    client.tokenize_many(["a", "b"])
    monkeypatch.setattr(client, "_call", noted)
    assert len(client.tokenize_many(["the model"] * 1000)) == 1000
    assert sent == ["/tokenize"]


def test_cut_ends_every_connection(start_faulty: Starter) -> None:
    """Several requests that hang at a time all end when the connection is cut."""
    server = start_faulty("hang")
    with Client(server.url) as talking, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(talking.completion, request((300,), 2)) for _ in range(2)]
        ended: list[BaseException | None] = []
        while len(ended) < 2:
            talking.cut()
            ended = [each.exception() for each in asked if each.done()]
            time.sleep(0.01)
    assert [error.outcome for error in ended if isinstance(error, EngineError)] == ["crash", "crash"]
