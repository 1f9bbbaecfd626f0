"""Runs a program of a build that prints something and ends, such as `llama-server --help`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str], *, timeout_s: float
) -> tuple[int, str]:
    """Return the exit code (below 0: the signal that ended it) and the text of both streams.

    Where it does not end in time, or the user stops the run, the program is killed with all that it has
    started: the program may be a script, and what hangs its child.

    Raises:
        subprocess.TimeoutExpired: it did not end within `timeout_s` seconds.
        OSError: it cannot be started.
    """
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a group of its own, to be killed as one
    ) as program:
        try:
            out, err = program.communicate(timeout=timeout_s)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            raise
    return program.returncode, (out + err).decode("utf-8", "replace")
