"""A proxy in front of a real server that changes one thing of what it says: the faults of `FAULTS`."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.protocol import RunningEngine

INDEX = 20
Change = Callable[[dict[str, Any], "Heard"], None]


@dataclass
class Heard:
    """What the proxy knows when it changes an answer.

    `start` counts the servers of this command line, `answered` the requests that this one had before.
    """

    engine: RunningEngine
    start: int
    answered: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def drafts(self) -> bool:
        return "--spec-type" in self.engine.argv


@dataclass(frozen=True)
class Fault:
    """One fault: which answers of which path it changes, and how.

    `ask` makes of a request what is really sent: several are sent one after the other, their answers joined.
    """

    path: str
    change: Change
    where: Callable[[Heard], bool] = lambda heard: heard.drafts
    ask: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda body: [body]


def _other_token(answer: dict[str, Any], heard: Heard) -> None:
    answer["tokens"][INDEX] += 1


def _near_tie(answer: dict[str, Any], heard: Heard) -> None:
    """The next id instead of the chosen one, and a baseline that was about to choose it."""
    if heard.drafts:
        _other_token(answer, heard)
    for entry in answer.get("completion_probabilities", [])[INDEX : INDEX + 1]:
        runner_up = entry["top_logprobs"][1]
        runner_up["id"], runner_up["logprob"] = entry["id"] + 1, entry["logprob"] - 1e-9


def _after_the_first(answer: dict[str, Any], heard: Heard) -> None:
    if heard.answered:
        _other_token(answer, heard)


def _cut(answer: dict[str, Any], heard: Heard) -> None:
    del answer["tokens"][INDEX:]


def _repeat_last(answer: dict[str, Any], heard: Heard) -> None:
    answer["tokens"].append(answer["tokens"][-1])


def _one_more_draft(answer: dict[str, Any], heard: Heard) -> None:
    answer["timings"]["draft_n"] += 1


def _more_drafts_later(answer: dict[str, Any], heard: Heard) -> None:
    if heard.answered:
        _one_more_draft(answer, heard)


def _rename_drafts(answer: dict[str, Any], heard: Heard) -> None:
    answer["timings"]["n_draft"] = answer["timings"].pop("draft_n")


def _rename_predicted(answer: dict[str, Any], heard: Heard) -> None:
    answer["timings"]["n_predicted"] = answer["timings"].pop("predicted_n")


def _no_drafts(answer: dict[str, Any], heard: Heard) -> None:
    for name in ("draft_n", "draft_n_accepted"):
        answer["timings"].pop(name, None)


def _all_accepted(answer: dict[str, Any], heard: Heard) -> None:
    timings = answer["timings"]
    timings["draft_n"] = timings.get("draft_n_accepted")


def _no_drafts_from_cache(answer: dict[str, Any], heard: Heard) -> None:
    if answer["timings"]["cache_n"]:
        _no_drafts(answer, heard)


def _no_probabilities(answer: dict[str, Any], heard: Heard) -> None:
    """A wrong token, and a baseline that does not tell how sure it was."""
    if heard.drafts:
        _other_token(answer, heard)
    for entry in answer.get("completion_probabilities", []):
        entry["top_logprobs"] = []


def _as_it_is(answer: dict[str, Any], heard: Heard) -> None:
    return


def _without_slot(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in body.items() if name != "id_slot"}]


def _one_by_one(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Two prompts of one request on a slot each, but the second when the first is answered."""
    if not isinstance(body["prompt"][0], list):
        return [body]
    return [body | {"prompt": prompt, "id_slot": slot} for slot, prompt in enumerate(body["prompt"])]


def _drop_metric(answer: dict[str, Any], heard: Heard) -> None:
    answer["text"] = "\n".join(
        line for line in answer["text"].splitlines() if "spec_decode_num_drafts_total" not in line
    )


def _other_template(answer: dict[str, Any], heard: Heard) -> None:
    answer["prompt"] += " slow"


def _hang(answer: dict[str, Any], heard: Heard) -> None:
    heard.released.wait(60)
    raise ConnectionAbortedError


def _crash(answer: dict[str, Any], heard: Heard) -> None:
    heard.engine.kill()
    raise ConnectionAbortedError


def everywhere(heard: Heard) -> bool:
    return True


def second_baseline(heard: Heard) -> bool:
    return not heard.drafts and heard.start == 2


def long_drafts(heard: Heard) -> bool:
    return _n_max(heard) == "3"


def other_drafts(heard: Heard) -> bool:
    """Of the config `own` both variants, and not the config itself."""
    return _n_max(heard) in ("1", "3")


def _n_max(heard: Heard) -> str | None:
    argv = heard.engine.argv
    return argv[argv.index("--spec-draft-n-max") + 1] if "--spec-draft-n-max" in argv else None


FAULTS: dict[str, Fault] = {
    "token": Fault("/completion", _other_token),
    "token-everywhere": Fault("/completion", _other_token, everywhere),
    "token-of-second-baseline": Fault("/completion", _other_token, second_baseline),
    "token-of-long-drafts": Fault("/completion", _other_token, long_drafts),
    "near-tie": Fault("/completion", _near_tie, everywhere),
    "cut": Fault("/completion", _cut),
    "repeat-last": Fault("/completion", _repeat_last),
    "state-leak": Fault("/completion", _after_the_first),
    "misreported-drafts": Fault("/completion", _one_more_draft),
    "drafts-leak": Fault("/completion", _more_drafts_later),
    "renamed-draft-key": Fault("/completion", _rename_drafts),
    "renamed-timings-key": Fault("/completion", _rename_predicted),
    "no-drafts": Fault("/completion", _no_drafts),
    "no-drafts-from-cache": Fault("/completion", _no_drafts_from_cache),
    "no-drafts-of-variants": Fault("/completion", _no_drafts, other_drafts),
    "no-probabilities": Fault("/completion", _no_probabilities, everywhere),
    "slot-not-taken": Fault("/completion", _as_it_is, ask=_without_slot),
    "one-by-one": Fault("/completion", _as_it_is, ask=_one_by_one),
    "all-accepted": Fault("/completion", _all_accepted),
    "dropped-metric": Fault("/metrics", _drop_metric),
    "template": Fault("/apply-template", _other_template),
    "template-everywhere": Fault("/apply-template", _other_template, everywhere),
    "template-of-second-baseline": Fault("/apply-template", _other_template, second_baseline),
    "hang": Fault("/completion", _hang),
    "crash": Fault("/completion", _crash),
}


class FaultyFactory(Factory):
    """Starts real servers, each behind a proxy with the fault; without one it changes nothing."""

    fault: Fault | None = None
    starts: Counter[tuple[str, ...]]

    def start(self, *args: Any, **options: Any) -> RunningEngine:
        engine = super().start(*args, **options)
        self.starts[engine.argv] += 1
        return Proxied(engine, self.fault, self.starts[engine.argv])  # type: ignore[return-value]


class Proxied:
    """A running engine whose address is the proxy's; all else is the engine's own."""

    def __init__(self, engine: RunningEngine, fault: Fault | None, start: int) -> None:
        self._engine = engine
        self._heard = Heard(engine, start)
        handler = type("Handler", (_Handler,), {"fault": fault, "heard": self._heard})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stop(self) -> None:
        self._heard.released.set()
        self._engine.stop()
        self._server.shutdown()
        self._server.server_close()

    def kill(self) -> None:
        self._heard.released.set()
        self._engine.kill()


class _Handler(BaseHTTPRequestHandler):
    fault: Fault | None
    heard: Heard
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        self._forward(self.rfile.read(int(self.headers["Content-Length"])))

    def _forward(self, body: bytes | None) -> None:
        path = self.path.partition("?")[0]
        fault = self.fault if self.fault is not None and path == self.fault.path else None
        if fault is not None and not fault.where(self.heard):
            fault = None
        try:
            response = self._send(body, fault)
            content = response.content
            if fault is not None and response.is_success:
                content = self._changed(fault, content)
            elif path == "/completion":
                self.heard.answered += 1
        except (httpx.TransportError, ConnectionError):
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(response.status_code)
        self.send_header("Content-Type", response.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send(self, body: bytes | None, fault: Fault | None) -> httpx.Response:
        bodies = [body]
        if fault is not None and body is not None:
            bodies = [json.dumps(each).encode() for each in fault.ask(json.loads(body))]
        responses = [
            httpx.request(
                self.command,
                self.heard.engine.url + self.path,
                content=each,
                headers={"Content-Type": "application/json"},
                timeout=60,
                trust_env=False,
            )
            for each in bodies
        ]
        if len(responses) == 1:
            return responses[0]
        return httpx.Response(200, json=[each.json() for each in responses])

    def _changed(self, fault: Fault, content: bytes) -> bytes:
        if fault.path == "/metrics":
            text = {"text": content.decode()}
            fault.change(text, self.heard)
            return (text["text"] + "\n").encode()
        answer = json.loads(content)
        for each in answer if isinstance(answer, list) else [answer]:
            fault.change(each, self.heard)
            self.heard.answered += fault.path == "/completion"
        return json.dumps(answer).encode()
