"""What the embedded server tells its parent when it listens: one line of JSON through an inherited pipe."""

from __future__ import annotations

import msgspec

# The environment variables by which the parent speaks to the child.
FD_VARIABLE = "PYTEST_NGRAM_READY_FD"
PARENT_VARIABLE = "PYTEST_NGRAM_PARENT_PID"
DEATH_SIGNAL_VARIABLE = "PYTEST_NGRAM_DEATH_SIGNAL"


class Ready(msgspec.Struct, frozen=True):
    """The line itself.

    `url` is where the server listens, `pid` the process that does. `build` names the llama.cpp build,
    `library` the shared library that holds the server's code, `spec_types` what this build can be asked for.
    """

    url: str
    pid: int
    package: str | None = None
    version: str | None = None
    build: str | None = None
    library: str | None = None
    spec_types: tuple[str, ...] = ()
    capabilities: dict[str, bool] = {}


def encode(ready: Ready) -> bytes:
    """Return the line with its line end."""
    return msgspec.json.encode(ready) + b"\n"


def decode(line: bytes) -> Ready:
    """Read the line. Raises `msgspec.DecodeError` (or its `ValidationError`) where it is anything else."""
    return msgspec.json.decode(line, type=Ready)
