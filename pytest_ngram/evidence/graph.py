"""Which nodes of the router are in a model's graph, as a build's own `llama-eval-callback` prints them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pytest_ngram.engine.run_to_end import run_to_end
from pytest_ngram.errors import EngineError

EVAL_CALLBACK = "llama-eval-callback"
_NODE = re.compile(r"(ffn_moe_\w+-\d+)")
_SHOWN_CHARS = 200


def nodes(program: Path, model: Path, environment: Mapping[str, str], *, timeout_s: float) -> tuple[str, ...]:
    """Return the node names that the program prints for one token, sorted.

    Raises:
        EngineError: it cannot be started, does not end in time, or ends by an error: what it printed until
            then says nothing of the graph.
    """
    command = [str(program), "-m", str(model), "-p", "a", "-n", "1", "-t", "1"]
    try:
        code, text = run_to_end(command, environment, timeout_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _unknown(program, "hang", f"it did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise _unknown(program, "crash", f"it cannot be started: {error.strerror}") from error
    if code:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise _unknown(program, "crash", f"it ended by {how}; it printed last: {last[0][:_SHOWN_CHARS]}")
    return tuple(sorted(set(_NODE.findall(text))))


def _unknown(program: Path, outcome: str, what: str) -> EngineError:
    return EngineError(
        "which nodes are in the graph could not be seen",
        outcome=outcome,
        checked=[f"{program}: {what}"],
        fix=f"build {program.name} of the same commit, or remove it, so that the graph counts as not checked",
    )
