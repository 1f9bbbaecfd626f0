"""llama-server's HTTP interface, as far as measuring needs it. Synchronous; never streams.

Streaming loses token ids, so a completion is one blocking request; progress is read from `/slots`.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

import httpx
import msgspec
import numpy as np

from pytest_ngram.engine import api_key, prometheus
from pytest_ngram.engine.many_texts import Content, Ids, ManyTexts
from pytest_ngram.errors import EngineError

T = TypeVar("T")

# A weak host tokenizes hundreds of kilobytes a second; this only says when to give up on a long text.
_TOKENIZED_PER_S = 50_000

_KEY_FIX = f"set the key that the server was started with in the environment, as {api_key.VARIABLES[0]}"


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `prompt` is token ids; `extra` adds fields of `/completion`, such as `n_probs`."""

    prompt: tuple[int, ...]
    n_predict: int
    temperature: float
    seed: int
    cache_prompt: bool = False
    extra: Mapping[str, Any] = {}

    def body(self) -> dict[str, Any]:
        """Return the JSON body. Ids are asked for; the prompt is not echoed back as settings."""
        return {
            **self.extra,
            "prompt": list(self.prompt),
            "n_predict": self.n_predict,
            "temperature": self.temperature,
            "seed": self.seed,
            "cache_prompt": self.cache_prompt,
            "return_tokens": True,
            "stream": False,
        }


class Timings(msgspec.Struct, frozen=True):
    """The server's `timings`, in tokens and milliseconds. `draft_*` are None where nothing was drafted."""

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    cache_n: int = 0
    draft_n: int | None = None
    draft_n_accepted: int | None = None


class CompletionResult(msgspec.Struct, frozen=True):
    """The answer. `tokens` are the generated ids; `stop_type` is `eos`, `limit`, `word` or `none`.

    `id_slot` is the slot that worked on it, None where the build does not say.
    """

    content: str
    tokens: tuple[int, ...]
    stop_type: str
    timings: Timings
    tokens_evaluated: int
    truncated: bool = False
    id_slot: int | None = None
    completion_probabilities: tuple[Any, ...] = ()


class Slot(msgspec.Struct, frozen=True):
    """One slot's progress. Counts are of the running request, 0 while idle."""

    id: int
    is_processing: bool
    n_decoded: int
    n_prompt_tokens_processed: int


class Props(msgspec.Struct, frozen=True):
    """The parts of `/props` that are used. `build_info` is what the server says of itself."""

    total_slots: int
    model_path: str = ""
    build_info: str | None = None
    chat_template: str = ""
    chat_template_caps: dict[str, bool] = {}
    default_generation_settings: dict[str, Any] = {}


class _NextToken(msgspec.Struct):
    n_decoded: int = 0


class _RawSlot(msgspec.Struct):
    id: int
    is_processing: bool
    next_token: list[_NextToken] = []
    n_prompt_tokens_processed: int = 0


class _Tokens(msgspec.Struct):
    tokens: tuple[int, ...]


class _Content(msgspec.Struct):
    content: str


class _Prompt(msgspec.Struct):
    prompt: str


class Client:
    """Talks to one server.

    Args:
        url: where it answers.
        timeout_s: for all but completions, which take as long as they take; the watchdog guards those.
        key: the server's API key, sent with every request; errors never show it.

    Every method raises `EngineError`: outcome `refused` with the server's own message where it answered with
    an error, outcome `crash` where the connection broke, outcome `hang` where no answer came in time.
    """

    def __init__(self, url: str, *, timeout_s: float = 30.0, key: str | None = None) -> None:
        self.url = url
        self._key = key
        self._timeout_s = timeout_s
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._many = ManyTexts(self._ids_of, cut=self.cut)
        # a proxy of the environment must never stand between us and the server
        # certificates are read only where they are needed: they take 20 ms of every start
        secure = not url.startswith("http://")
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            trust_env=False,
            verify=secure,
            headers={"Authorization": f"Bearer {key}"} if key else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def cut(self) -> None:
        """End the connections; a request that another thread waits for raises `EngineError`."""
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def health(self) -> bool:
        """Whether the server says that it is ready. False while it loads or where nobody answers."""
        try:
            return self._http.get("/health").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
        """Return the ids of `text`. A corpus wants `parse_special=False`, a rendered prompt both True."""
        body = {"content": text, "parse_special": parse_special, "add_special": add_special}
        return self._post("/tokenize", body, _Tokens).tokens

    def tokenize_many(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of texts of a corpus: an int32 array of shape (tokens,) for each, in their order.

        Each is what `tokenize` gives for `parse_special=False` and `add_special=False`, in fewer requests.
        """
        return self._many.ids(texts)

    def detokenize(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`."""
        return self._post("/detokenize", {"tokens": list(ids)}, _Content).content

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> str:
        """Render chat messages (and tool schemas) with the model's template.

        Raises:
            EngineError: the template cannot render them, or has no place for tools: llama.cpp would render
                such a prompt without them and say nothing.
        """
        body: dict[str, Any] = {"messages": list(messages)}
        if tools:
            if not self.template_takes_tools():
                raise EngineError(
                    "the model's chat template has no place for tools",
                    outcome="refused",
                    checked=[f"{self.url}/props: chat_template_caps.supports_tools is false"],
                    fix="give the prompt without tools, or name a template with --chat-template",
                )
            body["tools"] = list(tools)
        return self._post("/apply-template", body, _Prompt).prompt

    def template_takes_tools(self) -> bool:
        """Whether the model's chat template renders tool schemas; True where the build does not say."""
        return self.props().chat_template_caps.get("supports_tools", True)

    def completion(self, request: CompletionRequest, *, timeout_s: float | None = None) -> CompletionResult:
        """Generate. Blocks until the answer is whole, for `timeout_s` at most (None: for ever)."""
        timeout = httpx.Timeout(timeout_s, connect=10.0)
        return self._post("/completion", request.body(), CompletionResult, timeout=timeout)

    def completions(
        self, request: CompletionRequest, prompts: Sequence[Sequence[int]]
    ) -> tuple[CompletionResult, ...]:
        """Generate for several prompts that the server is given in one go; `request` says all the rest.

        It has them all before it begins, so that those for which it has a slot are worked on together.
        """
        body = request.body() | {"prompt": [list(ids) for ids in prompts]}
        timeout = httpx.Timeout(None, connect=10.0)
        return self._post("/completion", body, tuple[CompletionResult, ...], timeout=timeout)

    def slots(self) -> tuple[Slot, ...]:
        """Return the progress of each slot. Older builds answer between two decodes only."""
        raw = self._decode(self._call("GET", "/slots"), list[_RawSlot])
        return tuple(
            Slot(
                id=slot.id,
                is_processing=slot.is_processing,
                n_decoded=sum(token.n_decoded for token in slot.next_token),
                n_prompt_tokens_processed=slot.n_prompt_tokens_processed,
            )
            for slot in raw
        )

    def metrics(self) -> dict[str, float]:
        """Return `/metrics` by full name, labels kept as written: `…_per_pos_total{position="0"}`."""
        return prometheus.parse(self._call("GET", "/metrics").text)

    def props(self) -> Props:
        """Return `/props`."""
        return self._decode(self._call("GET", "/props"), Props)

    def _ids_of(self, content: Content, size_bytes: int) -> Ids:
        body = msgspec.json.encode({"content": content, "parse_special": False, "add_special": False})
        timeout = httpx.Timeout(self._timeout_s + size_bytes / _TOKENIZED_PER_S, connect=self._timeout_s)
        options = {"content": body, "headers": {"Content-Type": "application/json"}, "timeout": timeout}
        answer = self._call("POST", "/tokenize", **options)
        return np.array(self._decode(answer, _Tokens).tokens, np.int32)

    def _post(self, path: str, body: Mapping[str, Any], kind: type[T], **options: Any) -> T:
        return self._decode(self._call("POST", path, json=body, **options), kind)

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, extensions={"trace": self._note_socket}, **options)
        except httpx.TimeoutException as error:
            raise self._no_answer(method, path, "hang", f"no answer in time: {error!r}") from error
        except httpx.TransportError as error:
            raise self._no_answer(method, path, "crash", f"the connection broke: {error!r}") from error
        if response.is_success:
            return response
        raise EngineError(
            f"the server refused {method} {path}: {api_key.hidden(_message(response), self._key)}",
            outcome="refused",
            checked=[f"{self.url}{path} answered {response.status_code}"],
            fix=_KEY_FIX
            if response.status_code == httpx.codes.UNAUTHORIZED
            else "read the message; it is the server's own",
        )

    def _note_socket(self, event: str, info: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._sockets.add(info["return_value"].get_extra_info("socket"))

    def _no_answer(self, method: str, path: str, outcome: str, what: str) -> EngineError:
        return EngineError(
            f"the server did not answer {method} {path}",
            outcome=outcome,
            checked=[f"{self.url}{path}: {what}"],
            fix="read the server's log",
        )

    def _decode(self, response: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise EngineError(
                f"{response.url.path} answered in a form that this version cannot read",
                outcome="refused",
                checked=[str(error), f"the answer begins: {api_key.hidden(response.text[:200], self._key)}"],
                fix="this build of llama.cpp changed its interface; use one that the documentation lists",
            ) from error


def _message(response: httpx.Response) -> str:
    """Return `error.message` of llama-server's JSON, or the beginning of whatever came."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:500] or response.reason_phrase
