"""Starting: one rule for ready, and every way not to become ready explained."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_ngram.engine import process
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.errors import EngineError

Starter = Callable[..., EngineProcess]


def test_ready_server_is_named(start_faulty: Starter) -> None:
    """A started server has a URL, a pid, a load time, and lives."""
    server = start_faulty("ok")
    assert server.url.startswith("http://127.0.0.1:")
    assert psutil.pid_exists(server.pid)
    assert server.load_s > 0
    assert server.alive()


@pytest.mark.parametrize("script", ["slow-start", "loading"])
def test_slow_start_is_waited_for(start_faulty: Starter, script: str) -> None:
    """A server that takes its time, before or after it says its address, is waited for."""
    assert start_faulty(script).load_s >= 0.7


@pytest.mark.parametrize("script", ["never-ready", "silent"])
def test_never_ready_is_a_hang(start_faulty: Starter, script: str) -> None:
    """A server that is not ready by the deadline is ended and reported as `hang`."""
    with pytest.raises(EngineError, match="not ready in time") as caught:
        start_faulty(script, ready_timeout_s=0.6)
    assert caught.value.outcome == "hang"
    assert not psutil.pid_exists(int(caught.value.checked[0].split()[1]))


def test_early_exit_is_not_waited_for(start_faulty: Starter) -> None:
    """A server that ends before it is ready is reported with its log, hours ahead of the deadline."""
    with pytest.raises(EngineError, match="ended while starting") as caught:
        start_faulty("exit-0-early", ready_timeout_s=36_000)
    assert caught.value.outcome == "crash"
    assert "exit code 0" in caught.value.checked
    assert caught.value.log_tail == ("nothing to do",)


def test_known_log_line_names_the_cause(start_faulty: Starter) -> None:
    """A log line whose cause is known gives the error that cause and the outcome `refused`."""
    with pytest.raises(EngineError, match="no MTP block") as caught:
        start_faulty("no-mtp")
    assert caught.value.outcome == "refused"


def test_babble_is_refused(start_faulty: Starter) -> None:
    """A program that does not keep the handshake's promise is ended and shown what it said."""
    with pytest.raises(EngineError, match="something else than its address"):
        start_faulty("babble")


def test_foreign_port_is_refused(start_faulty: Starter) -> None:
    """A healthy answer from a process that is not ours is never taken for our server."""
    other = start_faulty("ok")
    with pytest.raises(EngineError, match="another process answers"):
        start_faulty("foreign-port", env={"FOREIGN_URL": other.url})
    assert other.alive()


def test_missing_program_is_refused(tmp_path: Path) -> None:
    """A command that does not exist is an error that names it."""
    with pytest.raises(EngineError, match="cannot be started") as caught:
        process.start([], log_path=tmp_path / "x.log", command=("/no/such/program",))
    assert "/no/such/program" in caught.value.checked[0]


def test_no_engine_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without xllamacpp the error says what was looked for and how to install it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EngineError, match="no engine is installed") as caught:
        process.start([], log_path=tmp_path / "x.log")
    assert 'pip install "pytest-ngram[embedded]"' in caught.value.fix


def test_flags_are_checked_before_a_process_starts(tmp_path: Path) -> None:
    """An unknown flag is refused by the parent: no process, no log."""
    with pytest.raises(EngineError, match="--ubatch-sise"):
        process.start(["--ubatch-sise", "3"], log_path=tmp_path / "x.log")
    assert not (tmp_path / "x.log").exists()


def test_unknown_flag_is_exit_code_2() -> None:
    """The embedded server itself refuses an unknown flag: exit code 2, reason on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_ngram.engine.embedded", "--no-such-flag"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--no-such-flag" in done.stderr


def test_llama_variables_do_not_leak_in(start_embedded: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LLAMA_*` variables of the environment do not reach the server; LLAMA_TRACE only where asked for."""
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "64")
    monkeypatch.setenv("LLAMA_TRACE", "1")
    plain, traced = start_embedded(), start_embedded(trace=True)
    names = {name for name in psutil.Process(plain.pid).environ() if name.startswith("LLAMA_")}
    assert names == set()
    assert psutil.Process(traced.pid).environ()["LLAMA_TRACE"] == "1"


def test_damaged_model_is_refused(tmp_path: Path) -> None:
    """A file that is no GGUF ends the start with what llama.cpp says of it."""
    model = tmp_path / "bad.gguf"
    model.write_bytes(b"not a model at all")
    with pytest.raises(EngineError, match="cannot load the model") as caught:
        process.start(["-m", str(model), "--port", "0"], log_path=tmp_path / "x.log")
    assert caught.value.outcome == "refused"
    assert any("gguf" in line for line in caught.value.log_tail)


def test_missing_table_aborts_and_is_explained(model_path: Path, tmp_path: Path) -> None:
    """llama.cpp aborts on a table that it cannot read; the error names the signal and the table."""
    argv = ["-m", str(model_path), "-t", "1", "--port", "0", "-c", "512"]
    argv += ["--spec-type", "ngram-cache", "-lcs", str(tmp_path / "none.bin")]
    with pytest.raises(EngineError, match="table") as caught:
        process.start(argv, log_path=tmp_path / "x.log")
    assert caught.value.outcome == "refused"
    assert "signal SIGABRT (6)" in caught.value.checked
