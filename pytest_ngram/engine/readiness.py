"""One rule for ready: the child said its URL, the child owns that port, and `/health` says ok."""

from __future__ import annotations

import os
import select
import time
import urllib.error
import urllib.request
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
import psutil

from pytest_ngram.engine import handshake, log_tail
from pytest_ngram.errors import EngineError

_STEP_S = 0.05
# how long a process that has closed its port may take to be seen dead
_DEATH_S = 2.0


class Starting(Protocol):
    """What is known of a server before it is ready."""

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def explain_exit(self) -> EngineError:
        """Why it does not."""
        ...


def wait(server: Starting, read_fd: int, deadline: float) -> handshake.Ready:
    """Wait until the server is ready.

    Args:
        server: the process.
        read_fd: the pipe through which it says its URL.
        deadline: in seconds of `time.monotonic`.

    Raises:
        EngineError: the server ended (at once, whatever the deadline), was not ready in time (`hang`), or
            named a port that is not its own.
    """
    line = b""
    while not line.endswith(b"\n"):
        line += _read_some(server, read_fd, deadline)
    try:
        ready = handshake.decode(line)
    except msgspec.DecodeError as error:
        raise EngineError(
            "the server said something else than its address",
            outcome="crash",
            checked=[repr(line[:200]), str(error)],
            fix="the program must write one line of JSON as pytest_ngram.engine.handshake describes",
        ) from error
    while not _healthy(ready.url):
        _still_hopeful(server, deadline, f"{ready.url}/health does not say ok")
        time.sleep(_STEP_S)
    _require_own_port(server, ready.url)
    return ready


def _read_some(server: Starting, read_fd: int, deadline: float) -> bytes:
    if select.select([read_fd], [], [], _STEP_S)[0]:
        got = os.read(read_fd, 65536)
        if got:
            return got
        # the pipe closed: the process is ending, or closed it and will never say its address
        time.sleep(_STEP_S)
    _still_hopeful(server, deadline, "it did not say where it listens")
    return b""


def _still_hopeful(server: Starting, deadline: float, missing: str) -> None:
    if not server.alive():
        raise server.explain_exit()
    if time.monotonic() < deadline:
        return
    log_path = getattr(server, "log_path", None)
    raise EngineError(
        "the server was not ready in time",
        outcome="hang",
        checked=[f"process {server.pid} still runs", missing, f"log: {log_path}"],
        fix="give it more time, or find out from the log what it waits for",
        log_tail=log_tail.tail(log_path) if log_path else (),
    )


def _healthy(url: str) -> bool:
    try:
        # straight to the address: a proxy of the environment must never stand in between
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _require_own_port(server: Starting, url: str) -> None:
    """Refuse a port on which another process answers."""
    port = urlsplit(url).port
    deadline = time.monotonic() + _DEATH_S
    while (listening := _listening(server)) is not None and not listening and time.monotonic() < deadline:
        # it may be dying, and someone else has its port already
        if not server.alive():
            raise server.explain_exit()
        time.sleep(_STEP_S)
    if listening is not None and port not in listening:
        raise EngineError(
            "another process answers where our server was to listen",
            outcome="crash",
            checked=[f"{url} answers", f"process {server.pid} listens on {sorted(listening) or 'nothing'}"],
            fix="give --port 0, so that the system chooses a free port",
        )


def _listening(server: Starting) -> set[int] | None:
    """Return the ports on which the server listens, None where that may not be seen."""
    try:
        return {
            connection.laddr.port
            for connection in psutil.Process(server.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
    except psutil.NoSuchProcess:
        raise server.explain_exit() from None
    except psutil.AccessDenied:
        return None
