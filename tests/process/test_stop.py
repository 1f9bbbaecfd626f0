"""Ending: what we started is ended, with all that it started, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_ngram.engine import log_tail, process
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess

Starter = Callable[..., EngineProcess]
Wait = Callable[..., None]


def test_sigterm_is_enough_for_the_embedded_server(start_embedded: Starter) -> None:
    """The embedded server ends by SIGTERM, not by the SIGKILL after it; stopping twice is harmless."""
    server = start_embedded()
    server.stop(grace_s=60)
    assert server.exit_code == -signal.SIGTERM
    assert not psutil.pid_exists(server.pid)
    server.stop()
    assert server.exit_code == -signal.SIGTERM


def test_a_server_may_finish_its_work(start_faulty: Starter) -> None:
    """SIGTERM comes first, and within the grace time nothing else: the server saves and ends by itself."""
    server = start_faulty("polite")
    server.stop(grace_s=60)
    assert log_tail.tail(server.log_path) == ("SIGTERM: saving", "saved")
    assert server.exit_code == 0


def test_immortal_server_is_killed(start_faulty: Starter) -> None:
    """A server that goes on after SIGTERM is killed when the grace time is over."""
    server = start_faulty("immortal")
    server.stop(grace_s=1.0)
    assert log_tail.tail(server.log_path) == ("SIGTERM: ignored",)
    assert server.exit_code == -signal.SIGKILL
    assert not psutil.pid_exists(server.pid)


def test_what_the_server_started_is_ended_too(start_faulty: Starter, assert_gone: Wait) -> None:
    """The whole process group goes, even where the server itself has died first."""
    server = start_faulty("parent")
    child = int(log_tail.tail(server.log_path)[0].split()[1])
    os.kill(server.pid, signal.SIGKILL)
    assert_gone(server.pid)
    assert psutil.pid_exists(child)
    server.stop()
    assert_gone(child)


def test_dead_server_keeps_its_pid_until_stopped(start_faulty: Starter, wait_for: Wait) -> None:
    """Until `stop`, a dead server is a zombie of ours: its pid cannot become another process's."""
    server = start_faulty("ok")
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.alive())
    assert psutil.Process(server.pid).status() == psutil.STATUS_ZOMBIE
    server.stop()
    assert not psutil.pid_exists(server.pid)


def test_fork_does_not_end_our_server(start_faulty: Starter) -> None:
    """A forked copy of the test process that exits, or stops, leaves the parent's server alone."""
    server = start_faulty("ok")
    child = os.fork()
    if child == 0:
        server.stop()
        process._stop_all()
        os._exit(0)
    os.waitpid(child, 0)
    assert server.alive()


def test_context_manager_ends_on_exception(tmp_path: Path) -> None:
    """An exception inside `with process.start(...)` leaves no process."""
    faulty = Path(__file__).with_name("faulty_server.py")
    command = (sys.executable, str(faulty), "--script", "ok")
    with (
        pytest.raises(RuntimeError),
        process.start([], log_path=tmp_path / "x.log", command=command) as server,
    ):
        raise RuntimeError
    assert not psutil.pid_exists(server.pid)


def test_a_flood_of_log_does_not_block_the_server(start_faulty: Starter) -> None:
    """A server that has written tens of megabytes to its log, and still writes, answers."""
    server = start_faulty("log-flood")
    assert log_tail.size_bytes(server.log_path) > 35_000_000
    assert len(log_tail.tail(server.log_path)) == 20
    with Client(server.url) as client:
        request = CompletionRequest(prompt=(1, 2, 3), n_predict=2, temperature=0, seed=1)
        assert client.completion(request).tokens == (1, 2)
