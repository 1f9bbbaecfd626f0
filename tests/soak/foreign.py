"""A server that somebody else started, who starts it anew at the same address whenever it died."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from pytest_ngram.engine.command import server_argv

FLAGS = ("--spec-draft-n-max", "1")


class Foreign:
    """The server, and the thread that looks after it. A context manager.

    Args:
        model: the GGUF file.
        folder: for its log.
        seed: of how long it stays away.
    """

    def __init__(self, model: Path, folder: Path, seed: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        argv = server_argv(model, model_flags=["-t", "1"], spec_types=["draft-mtp"], config_flags=FLAGS)
        own = list(argv)
        own[own.index("--port") + 1] = str(self.port)
        self._command = [sys.executable, "-P", "-m", "pytest_ngram.engine.embedded", *own]
        self._log = folder / "foreign.log"
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._look_after, daemon=True)
        self.starts = 0

    @property
    def url(self) -> str:
        """Where it answers, when it does."""
        return f"http://127.0.0.1:{self.port}"

    def processes(self) -> list[psutil.Process]:
        """The server's process, if it runs."""
        with suppress(psutil.Error):
            if self._popen is not None and self._popen.poll() is None:
                return [psutil.Process(self._popen.pid)]
        return []

    def __enter__(self) -> Foreign:
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def _look_after(self) -> None:
        while not self._over.wait(0.1):
            if self._popen is not None and self._popen.poll() is not None:
                self._over.wait(self._random.choice((0.0, 0.0, 0.3, 3.0)))
                self._start()

    def _start(self) -> None:
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(self._command, stdout=log, stderr=log, env=env)
        self.starts += 1
