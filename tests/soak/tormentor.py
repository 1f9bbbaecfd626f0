"""Kills, stops and robs the servers of one measuring run, at random but by a seed."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil

from pytest_ngram.engine.listening import listening_ports

Victims = Callable[[], Sequence[psutil.Process]]

# longer than the soak's hang_after_s, so that a stop is a hang if it hits a request
_STOP_S = (0.1, 5.0)
_PAUSE_S = (0.05, 1.5)
_CROWD = 300


class Thief(BaseHTTPRequestHandler):
    """Answers everything with success and nothing in it."""

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.do_GET()


class Tormentor(threading.Thread):
    """Torments while it runs.

    Args:
        victims: the server processes of the moment.
        seed: of every choice.
        may_leave_stopped: whether a stopped process may stay so, for others to end.
    """

    def __init__(self, victims: Victims, seed: int, *, may_leave_stopped: bool) -> None:
        super().__init__(name="tormentor", daemon=True)
        self._victims = victims
        self._random = random.Random(seed)
        self._may_leave_stopped = may_leave_stopped
        self._over = threading.Event()
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        """Torment until `end`."""
        deeds = (self._kill, self._kill, self._freeze, self._freeze, self._rob, self._share, self._crowd)
        while not self._over.wait(self._random.uniform(*_PAUSE_S)):
            victims = self._victims()
            if victims:
                with suppress(psutil.Error):
                    self._random.choice(deeds)(self._random.choice(victims))

    def end(self) -> None:
        """Stop tormenting; what was to be continued is."""
        self._over.set()
        self.join()

    def _kill(self, victim: psutil.Process) -> None:
        victim.kill()
        self.done["killed"] += 1

    def _freeze(self, victim: psutil.Process) -> None:
        victim.send_signal(signal.SIGSTOP)
        self.done["stopped"] += 1
        if self._may_leave_stopped and self._random.random() < 0.5:
            return
        self._over.wait(self._random.uniform(*_STOP_S))
        with suppress(psutil.Error):
            victim.send_signal(signal.SIGCONT)

    def _rob(self, victim: psutil.Process) -> None:
        """Kill the server and answer at its address."""
        ports = listening_ports(victim.pid)
        self._kill(victim)
        if ports and self._answer_at(ports[0]):
            self.done["robbed of their port"] += 1

    def _share(self, victim: psutil.Process) -> None:
        """Try to listen beside the server, which would take a part of its requests."""
        for port in listening_ports(victim.pid):
            self.done["followed at their port" if self._answer_at(port) else "kept their port"] += 1

    def _answer_at(self, port: int) -> bool:
        """Answer there for a moment, if the port can be had."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            try:
                thief = _thief_at(port)
            except OSError:
                time.sleep(0.01)
                continue
            with thief:
                threading.Thread(target=thief.serve_forever, daemon=True).start()
                self._over.wait(self._random.uniform(0.2, 2.0))
                thief.shutdown()
            return True
        return False

    def _crowd(self, _victim: psutil.Process) -> None:
        """Take many of the ports from which the next server gets one."""
        with ExitStack() as taken:
            for _ in range(_CROWD):
                one = taken.enter_context(socket.socket())
                one.bind(("127.0.0.1", 0))
                one.listen()
            self.done["crowded"] += 1
            self._over.wait(self._random.uniform(0.2, 1.0))


def _thief_at(port: int) -> ThreadingHTTPServer:
    thief = ThreadingHTTPServer(("127.0.0.1", port), Thief, bind_and_activate=False)
    thief.daemon_threads = True
    thief.allow_reuse_address = True
    thief.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        thief.server_bind()
        thief.server_activate()
    except OSError:
        thief.server_close()
        raise
    return thief
