"""What the rest of the project needs from an engine, whichever kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pytest_ngram import record
from pytest_ngram.errors import EngineError


class RunningEngine(Protocol):
    """A server that answers as llama-server.

    `pid` is None where the process is not ours to see (a URL); then `log_path` is None too, and `stop` and
    `kill` do nothing.
    """

    @property
    def url(self) -> str:
        """Where it answers, such as `http://127.0.0.1:41077`."""
        ...

    @property
    def pid(self) -> int | None:
        """The server's process, None where it is not ours."""
        ...

    @property
    def argv(self) -> tuple[str, ...]:
        """llama-server's own command line, without the program."""
        ...

    @property
    def log_path(self) -> Path | None:
        """The file that holds its standard output and error."""
        ...

    @property
    def load_s(self) -> float:
        """Seconds from the start of the process until `/health` said ok."""
        ...

    @property
    def key(self) -> str | None:
        """Its API key, to be shown nowhere; None for a server of our own."""
        ...

    def alive(self) -> bool:
        """Whether the process still runs; True for a URL, whose end only a request can tell."""
        ...

    def replaced(self, n_generated: float | None) -> bool:
        """Whether another server answers in its place, which has generated less; only of a URL.

        Raises:
            EngineError: nobody answers there.
        """
        ...

    def stop(self) -> None:
        """End the server and all it started. Safe to call twice."""
        ...

    def kill(self) -> None:
        """End the server at once and leave its exit to be explained. For the watchdog."""
        ...

    def explain_exit(self) -> EngineError:
        """Say why the server is gone: exit code or signal, what was checked, the last log lines."""
        ...

    def describe(self) -> record.Engine:
        """Say which engine this is, for the record."""
        ...
