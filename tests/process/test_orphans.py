"""No orphan: however a test run ends, its server ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

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


def run_pytest(folder: Path, model: Path, body: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start pytest on a test that has a server; return it with the server's pid."""
    test = folder / "test_it.py"
    test.write_text(TEST_FILE.format(model=str(model), folder=str(folder), body=body))
    running = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(test)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not (folder / "pid").exists():
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.02)
    return running, int((folder / "pid").read_text())


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"the server {pid} outlived its test run"
        time.sleep(0.02)


def test_none_after_ctrl_c(tmp_path: Path, model_path: Path) -> None:
    """Ctrl-C, which reaches the terminal's whole process group, ends pytest, and pytest ends the server."""
    running, pid = run_pytest(tmp_path, model_path, "time.sleep(60)")
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(20) == pytest.ExitCode.INTERRUPTED
    assert_gone(pid)


def test_none_after_a_failing_test(tmp_path: Path, model_path: Path) -> None:
    """An exception in a test leaves no server."""
    running, pid = run_pytest(tmp_path, model_path, "raise RuntimeError")
    assert running.wait(20) == pytest.ExitCode.TESTS_FAILED
    assert_gone(pid)


def test_none_after_a_killed_run(tmp_path: Path, model_path: Path) -> None:
    """A pytest that is killed by SIGKILL, so that it cannot clean up, leaves no server."""
    running, pid = run_pytest(tmp_path, model_path, "time.sleep(60)")
    running.kill()
    running.wait(20)
    assert_gone(pid)


def test_none_after_a_terminated_run(tmp_path: Path, model_path: Path) -> None:
    """SIGTERM, which ends pytest without its own clean-up, leaves no server."""
    running, pid = run_pytest(tmp_path, model_path, "time.sleep(60)")
    running.terminate()
    running.wait(20)
    assert_gone(pid)


def test_none_of_a_server_started_in_a_thread(tmp_path: Path, model_path: Path) -> None:
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
