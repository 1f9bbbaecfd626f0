"""Where a llama-server of someone else's making listens: from its own sockets, or from its log."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import psutil

_STEP_S = 0.02
_HEAD_BYTES = 1024 * 1024
# `listening on http://127.0.0.1:41077`, in older builds `server is listening on http://127.0.0.1:8080 - …`
_LINE = re.compile(rb"listening on (https?://\S+:(\d+))")


class Process(Protocol):
    """What is needed of a server that starts."""

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    def alive(self) -> bool:
        """Whether it runs."""
        ...


def wait_for_url(server: Process, log_path: Path, deadline: float) -> str | None:
    """Return where the server listens; None where it ended or `deadline` (`time.monotonic`) passed first.

    The log's line is taken where there is one (`-lv 3` and more print it, once the model is loaded). A
    server that says less, or that was given port 0 and repeats the 0, is known by the one port on which
    its process listens.
    """
    while server.alive() and time.monotonic() < deadline:
        url = url_in_log(log_path) or _url_of_port(listening_ports(server.pid))
        if url is not None:
            return url
        time.sleep(_STEP_S)
    return None


def url_in_log(log_path: Path) -> str | None:
    """Return the address in the log's first `listening on` line, None where it names no port."""
    try:
        with log_path.open("rb") as log:
            found = _LINE.search(log.read(_HEAD_BYTES))
    except OSError:
        return None
    return found[1].decode("ascii", "replace") if found is not None and int(found[2]) > 0 else None


def listening_ports(pid: int) -> tuple[int, ...]:
    """Return the TCP ports on which a process listens, sorted; empty where that cannot be read."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return ()
    return tuple(sorted({c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}))


def listening_child(pid: int) -> int | None:
    """Return a descendant that listens where the process itself does not, None where there is none."""
    if listening_ports(pid):
        return None
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return None
    return next((child.pid for child in children if listening_ports(child.pid)), None)


def _url_of_port(ports: Sequence[int]) -> str | None:
    return f"http://127.0.0.1:{ports[0]}" if len(ports) == 1 else None
