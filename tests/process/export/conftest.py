"""A server that speaks the export's protocol, and misbehaves on request; and a folder to pull into."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import ssl
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyrage
import pytest

from pytest_ngram import cli

TOKEN = "t0ken-of-the-tests-7f3a"
PREFIX = "/bot"
MANIFEST, MESSAGES = f"{PREFIX}/export/v1/manifest", f"{PREFIX}/export/v1/messages"
Fault = Callable[["Handler"], None]


def jsonl(*contents: str) -> bytes:
    rows = [{"v": 1, "session": "s", "seq": n, "role": "user", "content": c} for n, c in enumerate(contents)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class Handler(BaseHTTPRequestHandler):
    """Answers as its server's script says."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def log_message(self, *_: object) -> None:
        return

    def send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        export = self.server.export
        export.seen.append((self.path, dict(self.headers)))
        faults = export.faults[self.path]
        fault = faults.popleft() if faults else export.always.get(self.path)
        if fault is not None:
            fault(self)
        else:
            self.answer()

    def answer(self) -> None:
        """Do what the protocol says."""
        export = self.server.export
        if export.token is not None and self.headers.get("Authorization") != f"Bearer {export.token}":
            self.send(401)
        elif self.path == MANIFEST:
            self.send(200, json.dumps(export.manifest).encode(), {"Content-Type": "application/json"})
        elif self.path != MESSAGES:
            self.send(404)
        elif export.etag is not None and self.headers.get("If-None-Match") == export.etag:
            self.send(304)
        else:
            self.send(200, export.body, {} if export.etag is None else {"ETag": export.etag})


class Listening(ThreadingHTTPServer):
    """Knows what it serves, and is silent where a client leaves."""

    daemon_threads = True
    block_on_close = False  # a request that hangs on purpose is not waited for
    export: Export

    def handle_error(self, *_: object) -> None:
        return


class Faults:
    """What can go wrong; each is to be handed to `once` or `for_ever`."""

    @staticmethod
    def status(status: int, **headers: str) -> Fault:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return functools.partial(Handler.send, status=status, headers=named)

    @staticmethod
    def body(body: bytes, **headers: str) -> Fault:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return functools.partial(Handler.send, status=200, body=body, headers=named)

    @staticmethod
    def redirect(url: str, **headers: str) -> Fault:
        return Faults.status(307, Location=url, **headers)

    @staticmethod
    def cut(handler: Handler) -> None:
        """Half of the body that was announced, and the connection ends."""
        body = handler.server.export.body
        handler.send(200, body[: len(body) // 2], {"Content-Length": str(len(body))})
        handler.close_connection = True

    @staticmethod
    def no_http(handler: Handler) -> None:
        """What came, thrown back."""
        handler.wfile.write(f"{handler.headers['Authorization']}\r\n{handler.headers}".encode())
        handler.close_connection = True

    @staticmethod
    def hang(_handler: Handler) -> None:
        time.sleep(3600)

    @staticmethod
    def drip(handler: Handler) -> None:
        """A byte now and then: never silent for long, never done."""
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    @staticmethod
    def drip_headers(handler: Handler) -> None:
        """The same, before the body."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    @staticmethod
    def slow(handler: Handler) -> None:
        """The right answer, after a while."""
        time.sleep(0.5)
        handler.answer()

    @staticmethod
    def echo(handler: Handler) -> None:
        """A refusal that repeats all that was sent, wherever there is room."""
        sent = str(handler.headers).encode()
        token = handler.headers["Authorization"]
        handler.send_response(403, f"no {token}")
        for name in ("ETag", "Location", "Content-Length"):
            handler.send_header(name, str(len(sent)) if name == "Content-Length" else token)
        handler.end_headers()
        handler.wfile.write(sent)

    @staticmethod
    def changed(text: bytes) -> Fault:
        """Before this request is answered, the content becomes another."""

        def change(handler: Handler) -> None:
            handler.server.export.put(text)
            handler.answer()

        return change


class Export:
    """The server. What it serves is set by `put`, what it does wrong by `once` and `for_ever`."""

    fail = Faults

    def __init__(self, recipient: Any, certificate: Path | None = None) -> None:
        self.recipient = recipient
        self.token: str | None = TOKEN
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.always: dict[str, Fault] = {}
        self.put(jsonl("one", "two", "три"))
        self._listening = Listening(("127.0.0.1", 0), Handler)
        self._listening.export = self
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # the handshake is left to the thread of its connection, for it may fail
            self._listening.socket = context.wrap_socket(
                self._listening.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._listening.server_port}{PREFIX}"
        threading.Thread(target=self._listening.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown()
        self._listening.server_close()

    def put(self, text: bytes, *, rows: int | None = None) -> None:
        """Serve these rows, as the protocol has it."""
        self.put_plain(gzip.compress(text), rows=text.count(b"\n") if rows is None else rows)

    def put_plain(self, plain: bytes, *, rows: int) -> None:
        """Serve this in place of a gzip file, encrypted."""
        self.put_body(pyrage.encrypt(plain, [self.recipient]), rows=rows, content_id=_sha256(plain)[:12])

    def put_body(self, body: bytes, *, rows: int = 3, content_id: str = "a-body") -> None:
        """Serve this in place of an encrypted file, with a manifest that fits it."""
        self.body = body
        self.etag: str | None = f'"{content_id}"'
        self.manifest: Any = {
            "content_id": content_id,
            "rows": rows,
            "bytes": len(body),
            "sha256": _sha256(body),
            "made_by": "a key that a later version added",
        }

    def once(self, path: str, *faults: Fault) -> None:
        """Do these in turn with the next requests for a path."""
        self.faults[path].extend(faults)

    def for_ever(self, path: str, fault: Fault) -> None:
        """Do this with every request for a path."""
        self.always[path] = fault

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(1 for each, _ in self.seen if each == path)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Done:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


class Puller:
    """A user's folder: a token, an identity, and the file to pull into."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.identity = pyrage.x25519.Identity.generate()
        self.token_file = self.secret("token", f"{TOKEN}\n")
        self.identity_file = self.secret("key.txt", f"# created: now\n{self.identity}\n")
        (folder / "data").mkdir()
        self.output = folder / "data" / "chats.jsonl.gz"
        self._capsys = capsys

    def secret(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def arguments(self, url: str, *more: str) -> list[str]:
        """The command line of a pull, but for the program's name."""
        files = ["-o", self.output, "--token-file", self.token_file, "--identity", self.identity_file]
        return ["corpus", "pull", url, *map(str, files), *more]

    def pull(self, url: str, *more: str) -> Done:
        """Type the command."""
        try:
            code = cli.main(self.arguments(url, *more))
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)

    def text(self) -> bytes:
        """What was pulled, unpacked."""
        return gzip.decompress(self.output.read_bytes())

    def state(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.output.with_name("chats.jsonl.gz.state.json").read_bytes())
        return data

    def left(self) -> set[str]:
        """The names in the folder of the file, but for the lock."""
        return {name for name in os.listdir(self.output.parent) if not name.endswith(".lock")}


@pytest.fixture
def puller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Puller:
    return Puller(tmp_path, capsys)


@pytest.fixture
def serve(puller: Puller) -> Iterator[Callable[..., Export]]:
    """Start a server for the puller's identity; every one is closed after the test."""
    started: list[Export] = []

    def start(certificate: Path | None = None) -> Export:
        started.append(Export(puller.identity.to_public(), certificate))
        return started[-1]

    yield start
    for export in started:
        export.close()


@pytest.fixture
def export(serve: Callable[..., Export]) -> Export:
    return serve()
