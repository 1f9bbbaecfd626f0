"""Ending: what we started is ended, with all that it started, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_ngram.engine import log_tail, process
from pytest_ngram.engine.process import EngineProcess

Starter = Callable[..., EngineProcess]


def wait_for(condition: Callable[[], bool], within_s: float = 3.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid: int, within_s: float = 3.0) -> bool:
    """Whether the process is gone (or a zombie that nobody has reaped) within some seconds."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_sigterm_ends_the_embedded_server_quickly(start_embedded: Starter) -> None:
    """The embedded server ends within 0.3 s of SIGTERM, and stopping twice is harmless."""
    server = start_embedded()
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 0.3
    assert server.exit_code == -signal.SIGTERM
    assert gone(server.pid)
    server.stop()


def test_immortal_server_is_killed(start_faulty: Starter) -> None:
    """A server that ignores SIGTERM is killed after the grace time."""
    server = start_faulty("immortal")
    begin = time.monotonic()
    server.stop(grace_s=0.3)
    assert 0.3 <= time.monotonic() - begin < 2
    assert server.exit_code == -signal.SIGKILL


def test_what_the_server_started_is_ended_too(start_faulty: Starter) -> None:
    """The whole process group goes, even where the server itself has died first."""
    server = start_faulty("parent")
    child = int(log_tail.tail(server.log_path)[0].split()[1])
    os.kill(server.pid, signal.SIGKILL)
    assert gone(server.pid)
    assert psutil.pid_exists(child)
    server.stop()
    assert gone(child)


def test_dead_server_keeps_its_pid_until_stopped(start_faulty: Starter) -> None:
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
    assert gone(server.pid)


def test_log_flood_costs_no_memory(start_faulty: Starter) -> None:
    """A log of tens of megabytes is read from its end only, and the server still answers."""
    server = start_faulty("log-flood")
    assert log_tail.size_bytes(server.log_path) > 35_000_000
    before = psutil.Process().memory_info().rss
    tail = log_tail.tail(server.log_path)
    assert len(tail) == 20
    assert psutil.Process().memory_info().rss - before < 5_000_000
    assert server.alive()
