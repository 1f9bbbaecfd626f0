"""What is said where the build's program that shows the graph does not do so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.errors import EngineError
from pytest_ngram.evidence import graph

NODES = "ffn_moe_topk-1 = (i32)\nffn_moe_logits-0 = (f32)\nffn_moe_topk-1 = (i32)"


def look(tmp_path: Path, script: str) -> tuple[str, ...]:
    """Look at the graph through a shell script in place of `llama-eval-callback`."""
    program = tmp_path / graph.EVAL_CALLBACK
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return graph.nodes(program, tmp_path / "model.gguf", dict(os.environ), timeout_s=1)


def test_nodes_of_both_streams_are_read(tmp_path: Path) -> None:
    """Each node once, from wherever the program prints it."""
    assert look(tmp_path, f"echo '{NODES}' >&2; echo ffn_moe_weights-0") == (
        "ffn_moe_logits-0",
        "ffn_moe_topk-1",
        "ffn_moe_weights-0",
    )


@pytest.mark.parametrize(
    ("script", "outcome", "said"),
    [
        (f"echo '{NODES}'; exec sleep 60", "hang", "did not end within 1 s"),
        (f"echo '{NODES}'; kill -ABRT $$", "crash", "signal 6"),
        ("echo no such model; exit 3", "crash", "exit code 3; it printed last: no such model"),
        ("exit 3", "crash", "it printed last: nothing"),
    ],
)
def test_a_program_that_fails_is_told(tmp_path: Path, script: str, outcome: str, said: str) -> None:
    """A program that hangs or ends by an error shows no graph, whatever it has printed."""
    with pytest.raises(EngineError) as caught:
        look(tmp_path, script)
    assert caught.value.outcome == outcome
    assert said in str(caught.value)


def test_what_a_hanging_program_has_started_is_ended(
    tmp_path: Path, assert_gone: Callable[..., None]
) -> None:
    """A script whose child hangs leaves no process behind."""
    with pytest.raises(EngineError, match="did not end within 1 s"):
        look(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    assert_gone(int((tmp_path / "pid").read_text()))


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    """A file that is no program is an error like any other."""
    program = tmp_path / graph.EVAL_CALLBACK
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    with pytest.raises(EngineError, match="could not be seen") as caught:
        graph.nodes(program, tmp_path / "model.gguf", dict(os.environ), timeout_s=1)
    assert "cannot be started" in str(caught.value)
