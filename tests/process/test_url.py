"""A server that someone else started: looked at, asked, and left alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pytest_ngram.engine import process, url
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.errors import EngineError
from pytest_ngram.models.gguf_file import inspect

Starter = Callable[..., EngineProcess]

REQUEST = CompletionRequest(prompt=(300, 301), n_predict=4, temperature=0, seed=1)


def test_plain_server_suits_a_plain_config(embedded: EngineProcess, model_path: Path) -> None:
    """A server without speculation tells its model, context, slots and endpoints, and fits `none`."""
    engine = url.connect(embedded.url, label="theirs")
    facts = inspect(model_path)
    seen = engine.seen
    assert Path(seen.model_path).name == model_path.name
    assert (seen.n_ctx, seen.total_slots, seen.spec_types) == (4096, 1, ())
    assert (seen.metrics, seen.slots, seen.build) == (True, True, None)
    assert (seen.n_vocab, seen.tensor_bytes) == (facts.n_vocab, facts.tensor_bytes)
    argv = server_argv(model_path, model_flags=["-t", "1"])
    unseen = url.check_start(argv, seen, n_vocab=facts.n_vocab, tensor_bytes=facts.tensor_bytes)
    assert "-t 1" in unseen
    assert engine.describe().kind == "url"


def test_types_of_a_drafting_server_are_seen(start_embedded: Starter, model_path: Path) -> None:
    """A fresh server that drafts names its types after one token, and fits no other config."""
    server = start_embedded(spec="draft-mtp,ngram-simple")
    engine = url.connect(server.url)
    assert set(engine.seen.spec_types or ()) == {"draft-mtp", "ngram-simple"}
    url.check_start(server_argv(model_path, spec_types=["ngram-simple", "draft-mtp"]), engine.seen)
    for types in ([], ["draft-mtp"]):
        with pytest.raises(EngineError, match="not the one that this config needs"):
            url.check_start(server_argv(model_path, spec_types=types), engine.seen)


def test_closed_endpoints_are_seen(start_embedded: Starter, model_path: Path) -> None:
    """A server without /slots cannot be measured, and the reason says which flag it wants."""
    server = start_embedded()
    argv = [word for word in server.argv if word not in ("--metrics", "--slots")]
    server.stop()
    with process.start([*argv, "--no-slots"], log_path=server.log_path) as closed:
        seen = url.connect(closed.url).seen
    assert (seen.metrics, seen.slots) == (False, False)
    with pytest.raises(EngineError) as caught:
        url.check_start(server_argv(model_path), seen)
    assert "start the server with --metrics" in " ".join(caught.value.checked)


def test_nothing_is_ended(start_embedded: Starter) -> None:
    """Neither `kill` nor `stop` touches the server, and it answers afterwards."""
    server = start_embedded()
    engine = url.connect(server.url)
    engine.kill()
    engine.stop()
    with Client(engine.url) as client:
        assert len(client.completion(REQUEST, timeout_s=engine.request_timeout_s).tokens) == 4
    assert server.alive()


def test_frozen_server_ends_a_request_by_its_timeout(start_embedded: Starter) -> None:
    """A server that hangs cannot be killed from here: the request ends by its own time limit, as `hang`."""
    server = start_embedded()
    engine = url.connect(server.url, request_timeout_s=1.5)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with Client(engine.url) as client, pytest.raises(EngineError) as caught:
            guarded(
                engine,
                lambda: client.completion(REQUEST, timeout_s=engine.request_timeout_s),
                no_progress_s=0.5,
                first_poll_s=0.1,
                poll_s=0.2,
            )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert caught.value.outcome == "hang"
    assert server.alive()


def test_dead_server_is_a_crash(start_embedded: Starter) -> None:
    """A server that is gone is said to be, without a word about a process that is not ours."""
    server = start_embedded()
    engine = url.connect(server.url)
    server.stop()
    with Client(engine.url) as client, pytest.raises(EngineError, match="did not answer") as caught:
        guarded(engine, lambda: client.completion(REQUEST, timeout_s=5))
    assert caught.value.outcome == "crash"


def test_nobody_there_is_refused() -> None:
    """An address where nobody answers is refused."""
    with pytest.raises(EngineError, match="no llama-server answers at") as caught:
        url.connect("http://127.0.0.1:9")
    assert caught.value.outcome == "refused"


class Other(BaseHTTPRequestHandler):
    """Answers as the class says: still loading, or something else entirely."""

    status = 503

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        body = b'{"error": {"message": "Loading model"}}'
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize(
    ("status", "outcome", "said"),
    [
        (503, "hang", "not ready in time"),
        (404, "refused", "no llama-server answers"),
        (200, "refused", "cannot read"),
    ],
)
def test_what_is_no_ready_server(status: int, outcome: str, said: str) -> None:
    """A server that goes on loading is a hang; another kind of server is refused."""
    handler = type("Handler", (Other,), {"status": status})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EngineError, match=said) as caught:
            url.connect(f"http://127.0.0.1:{server.server_port}", ready_timeout_s=0.5)
        server.shutdown()
    assert caught.value.outcome == outcome
