"""No orphan: however a test run ends, its server ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Wait = Callable[..., None]
Run = Callable[[str], tuple["subprocess.Popen[bytes]", int]]

TEST_FILE = """
import time
from pathlib import Path
import pytest
from pytest_ngram.engine import process

@pytest.fixture(scope="session")
def server():
    argv = ["-m", {model!r}, "-t", "1", "-c", "512", "--port", "0"]
    with process.start(argv, log_path=Path({folder!r}) / "server.log") as running:
        Path({folder!r}, "pid.part").write_text(str(running.pid))
        Path({folder!r}, "pid.part").rename(Path({folder!r}, "pid"))
        yield running

def test_it(server):
    {body}
"""


@pytest.fixture
def run_pytest(tmp_path: Path, model_path: Path, wait_for: Wait) -> Run:
    """Start pytest on a test that has a server; return it with the server's pid."""

    def run(body: str) -> tuple[subprocess.Popen[bytes], int]:
        test, pid, log = tmp_path / "test_it.py", tmp_path / "pid", tmp_path / "out.txt"
        test.write_text(TEST_FILE.format(model=str(model_path), folder=str(tmp_path), body=body))
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test)]
        with log.open("wb") as out:
            running = subprocess.Popen(
                [sys.executable, *command], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(pid.exists, log.read_text)
        return running, int(pid.read_text())

    return run


def test_none_after_ctrl_c(run_pytest: Run, assert_gone: Wait) -> None:
    """Ctrl-C, which reaches the terminal's whole process group, ends pytest, and pytest ends the server."""
    running, pid = run_pytest("time.sleep(60)")
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(60) == pytest.ExitCode.INTERRUPTED
    assert_gone(pid)


def test_none_after_a_failing_test(run_pytest: Run, assert_gone: Wait) -> None:
    """An exception in a test leaves no server."""
    running, pid = run_pytest("raise RuntimeError")
    assert running.wait(60) == pytest.ExitCode.TESTS_FAILED
    assert_gone(pid)


def test_none_after_a_killed_run(run_pytest: Run, assert_gone: Wait) -> None:
    """A pytest that is killed by SIGKILL, so that it cannot clean up, leaves no server."""
    running, pid = run_pytest("time.sleep(60)")
    running.kill()
    running.wait(60)
    assert_gone(pid)


def test_none_after_a_terminated_run(run_pytest: Run, assert_gone: Wait) -> None:
    """SIGTERM, which ends pytest without its own clean-up, leaves no server."""
    running, pid = run_pytest("time.sleep(60)")
    running.terminate()
    running.wait(60)
    assert_gone(pid)


def test_none_of_a_server_started_in_a_thread(tmp_path: Path, model_path: Path, assert_gone: Wait) -> None:
    """A server that another thread started outlives that thread and ends with the process."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, threading\n"
        "from pathlib import Path\n"
        "from pytest_ngram.engine import process\n"
        f"argv = ['-m', {str(model_path)!r}, '-t', '1', '-c', '512', '--port', '0']\n"
        "found = []\n"
        f"log = Path({str(tmp_path)!r}) / 'server.log'\n"
        "thread = threading.Thread(target=lambda: found.append(process.start(argv, log_path=log)))\n"
        "thread.start()\n"
        "thread.join()\n"
        "print(found[0].pid, found[0].alive(), flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    pid, alive = done.stdout.split()
    assert alive == "True"
    assert_gone(int(pid))
