"""A server that someone else started: looked at, asked, and left alone."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_ngram.engine import compare, process, url
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.select import choose
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
    unseen = compare.check_start(argv, seen, n_vocab=facts.n_vocab, tensor_bytes=facts.tensor_bytes)
    assert "-t 1" in unseen
    assert engine.describe().kind == "url"


def test_types_of_a_drafting_server_are_seen(start_embedded: Starter, model_path: Path) -> None:
    """A fresh server that drafts names its types after one token, and fits no other config.

    Nor does it fit its own before it is told what else its drafting is set to.
    """
    server = start_embedded(spec="draft-mtp,ngram-simple")
    seen = url.connect(server.url).seen
    assert set(seen.spec_types or ()) == {"draft-mtp", "ngram-simple"}
    argv = server_argv(model_path, spec_types=["ngram-simple", "draft-mtp"])
    compare.check_start(argv, seen, told=["--spec-type", "draft-mtp,ngram-simple"])
    with pytest.raises(EngineError, match="no answer of the server tells"):
        compare.check_start(argv, seen)
    for types in ([], ["draft-mtp"]):
        with pytest.raises(EngineError, match="not the one that this config needs"):
            compare.check_start(
                server_argv(model_path, spec_types=types),
                seen,
                told=["--spec-type", ",".join(types) or "none"],
            )


def test_closed_endpoints_are_seen(start_embedded: Starter, model_path: Path) -> None:
    """A server without /slots cannot be measured, and the reason says which flag it wants."""
    server = start_embedded()
    argv = [word for word in server.argv if word not in ("--metrics", "--slots")]
    server.stop()
    with process.start([*argv, "--no-slots"], log_path=server.log_path) as closed:
        seen = url.connect(closed.url).seen
    assert (seen.metrics, seen.slots) == (False, False)
    with pytest.raises(EngineError) as caught:
        compare.check_start(server_argv(model_path), seen)
    assert "start the server with --metrics" in " ".join(caught.value.checked)


def test_nothing_is_ended(start_embedded: Starter) -> None:
    """Neither `kill` nor `stop` touches the server, and it answers afterwards."""
    server = start_embedded()
    engine = url.connect(server.url)
    engine.kill()
    engine.stop()
    with Client(engine.url) as client:
        assert len(client.completion(REQUEST).tokens) == 4
    assert server.alive()


def test_request_to_a_frozen_server_is_cut(start_embedded: Starter) -> None:
    """A server that hangs is not ours to kill: the request ends, as `hang`, and the server is left alone."""
    server = start_embedded()
    engine = url.connect(server.url)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with Client(engine.url) as client, pytest.raises(EngineError, match="no progress") as caught:
            guarded(
                engine,
                lambda: client.completion(REQUEST),
                no_progress_s=0.5,
                first_poll_s=0.1,
                poll_s=0.2,
                cut=client.cut,
            )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert caught.value.outcome == "hang"
    assert server.alive()
    with Client(engine.url) as client:
        assert len(client.completion(REQUEST).tokens) == 4


def test_frozen_server_is_no_other_server(start_embedded: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is asked for, a server that does not answer is a hang, and one that is gone a crash."""
    server = start_embedded()
    engine = url.connect(server.url)
    monkeypatch.setattr(url, "_PATIENCE_S", 0.3)
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(EngineError) as caught:
        engine.replaced(None)
    assert caught.value.outcome == "hang"
    os.kill(server.pid, signal.SIGCONT)
    assert engine.replaced(None) is False
    server.stop()
    with pytest.raises(EngineError, match="does not answer any more") as caught:
        engine.replaced(None)
    assert caught.value.outcome == "crash"


def test_restarted_server_is_noticed(start_embedded: Starter, model_path: Path, tmp_path: Path) -> None:
    """Another server at the same address has generated less than the one that was measured before."""
    server = start_embedded()
    engine = url.connect(server.url)
    with Client(engine.url) as client:
        client.completion(REQUEST)
    assert engine.replaced(4) is False
    server.stop()
    argv = [*server.argv[: server.argv.index("--port")], "--port", str(urlsplit(server.url).port)]
    with process.start(argv, log_path=tmp_path / "second.log"):
        assert engine.replaced(4) is True
        assert engine.replaced(0) is False


@pytest.fixture
def keyed(model_path: Path) -> Iterator[str]:
    """The address of a server that wants the key `s3cret`."""
    argv = server_argv(model_path, model_flags=["-t", "1"])
    command = [sys.executable, str(Path(__file__).with_name("keyed_server.py")), "s3cret", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
        running.kill()


def test_key_opens_a_server(
    keyed: str, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the environment is sent with every request; the watchdog asks with it too."""
    monkeypatch.setenv("PYTEST_NGRAM_API_KEY", "s3cret")
    argv = server_argv(model_path)
    engine = Factory(choose(keyed)).start(argv, log_path=tmp_path / "none.log", facts=inspect(model_path))
    seen: list[object] = []
    long = CompletionRequest(
        prompt=(300, 301), n_predict=900, temperature=0, seed=1, extra={"ignore_eos": True}
    )
    with Client(engine.url, key=engine.key) as client:
        guarded(
            engine, lambda: client.completion(long), first_poll_s=0.01, poll_s=0.01, on_progress=seen.append
        )
    assert seen
    assert "s3cret" not in repr(engine) + str(engine.describe())


@pytest.mark.parametrize("key", [None, "wr0ng"])
def test_missing_or_wrong_key_is_said(
    keyed: str, tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """Without its key a server is refused, with the variable to set; a wrong key is not shown."""
    monkeypatch.delenv("PYTEST_NGRAM_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("PYTEST_NGRAM_API_KEY", key)
    with pytest.raises(EngineError, match="PYTEST_NGRAM_API_KEY") as caught:
        Factory(choose(keyed)).start(server_argv(model_path), log_path=tmp_path / "none.log")
    assert caught.value.outcome == "refused"
    assert "wr0ng" not in str(caught.value)


def test_drafting_server_tokenizes(start_embedded: Starter, model_path: Path, tmp_path: Path) -> None:
    """A corpus is tokenized by a server that drafts, though no plain config may be measured on it."""
    server = start_embedded(spec="draft-mtp")
    factory = Factory(choose(server.url))
    argv, facts, log_path = server_argv(model_path), inspect(model_path), tmp_path / "none.log"
    with pytest.raises(EngineError, match="no speculation is wanted"):
        factory.start(argv, log_path=log_path, facts=facts)
    engine = factory.start(argv, log_path=log_path, facts=facts, to_tokenize=True)
    with Client(engine.url) as client:
        assert client.tokenize("the model", parse_special=False, add_special=False)


def test_dead_server_is_a_crash(start_embedded: Starter) -> None:
    """A server that is gone is said to be, without a word about a process that is not ours."""
    server = start_embedded()
    engine = url.connect(server.url)
    server.stop()
    with Client(engine.url) as client, pytest.raises(EngineError, match="did not answer") as caught:
        guarded(engine, lambda: client.completion(REQUEST))
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


def test_a_port_is_no_status() -> None:
    """A server of another kind is refused at once, also on a port with the digits of 503 in it."""
    handler = type("Handler", (Other,), {"status": 404})
    for port in itertools.chain(range(50300, 50400), range(15030, 15040)):
        with contextlib.suppress(OSError), HTTPServer(("127.0.0.1", port), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with pytest.raises(EngineError, match="no llama-server answers"):
                url.connect(f"http://127.0.0.1:{port}", ready_timeout_s=0.5)
            server.shutdown()
            return
    pytest.fail("none of 110 ports is free")


@pytest.mark.parametrize(
    ("status", "outcome", "said"),
    [
        (503, "hang", "not ready in time"),
        (404, "refused", "no llama-server answers"),
        (200, "refused", "not Prometheus text"),
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
