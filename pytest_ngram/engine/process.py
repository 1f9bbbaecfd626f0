"""A server in a process of its own: started, watched, explained, and always ended."""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_ngram import record
from pytest_ngram.engine import exits, flags, handshake, identity, readiness
from pytest_ngram.errors import EngineError

EMBEDDED_COMMAND = (sys.executable, "-P", "-m", "pytest_ngram.engine.embedded")
_PACKAGE_ROOT = Path(__file__).parent.parent.parent
# Every process that is not yet ended. A forked copy of this one must not end them: see `EngineProcess._ours`.
_running: set[EngineProcess] = set()


class EngineProcess:
    """A server process that this process started. Use it as a context manager, or call `stop`.

    Only the `Popen` object is ever asked or signalled, never a name or a remembered pid: until `stop` reaps
    the process, its pid (and its process group) cannot belong to anyone else.
    """

    # it listens on this host only, and takes no key
    key: str | None = None

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        argv: tuple[str, ...],
        log_path: Path,
        cache_dir: Path | None,
        label: str | None = None,
    ) -> None:
        self._popen = popen
        self._owner = os.getpid()
        self._cache_dir = cache_dir
        self._label = label
        self._lock = threading.RLock()
        self._killed_by_us = False
        _running.add(self)
        self._oom_before = exits.oom_counters()
        self._ready: handshake.Ready | None = None
        self.argv = argv
        self.log_path = log_path
        self.load_s = 0.0

    @property
    def url(self) -> str:
        """Where it answers; empty until it is ready."""
        return self._ready.url if self._ready else ""

    @property
    def pid(self) -> int:
        """The server's process, which leads a process group of its own."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the signal's number; None while it runs."""
        with self._lock:
            return _code_of(self._peek()) if self._ours() else self._popen.returncode

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.exit_code is None

    def replaced(self, n_generated: float | None) -> bool:
        """Return False: nobody else can take the place of a process of ours unseen."""
        return False

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def kill(self) -> None:
        """End the process group by SIGKILL, and wait a moment for its end. `stop` is still to be called."""
        with self._lock:
            if self._ours():
                self._killed_by_us = self._killed_by_us or self._peek() is None
                self._signal_group(signal.SIGKILL)
                self._wait(2.0)

    def stop(self, grace_s: float = 5.0) -> None:
        """End the process: SIGTERM, and SIGKILL to its group after `grace_s` seconds. Safe to call twice."""
        with self._lock:
            if self._ours():
                if self._peek() is None:
                    self._killed_by_us = True
                    os.kill(self._popen.pid, signal.SIGTERM)
                    os.kill(self._popen.pid, signal.SIGCONT)  # one that is stopped hears nothing else
                    self._wait(grace_s)
                # the leader is dead or deaf: end what is left of its group, then let go of the pid
                self._signal_group(signal.SIGKILL)
                self._popen.wait()
            _running.discard(self)

    def explain_exit(self) -> EngineError:
        """Say why the process ended. Waits a moment for a process that is just ending."""
        with self._lock:
            if self._ours():
                self._wait(2.0)
        return self._explain("running" if self._ready else "starting")

    def describe(self) -> record.Engine:
        """Say which engine this is. Reads the server's library once per `cache_dir` for its hash."""
        ready = self._ready or handshake.Ready(url="", pid=self.pid)
        library = Path(ready.library) if ready.library else None
        return record.Engine(
            kind="embedded",
            package=ready.package,
            version=ready.version,
            build=ready.build,
            label=self._label,
            binary_sha256=identity.file_sha256(library, self._cache_dir) if library else None,
            argv=self.argv,
            spec_types=ready.spec_types,
            capabilities=ready.capabilities,
        )

    def became_ready(self, ready: handshake.Ready, load_s: float) -> None:
        """Note what the server said of itself and how long it took to be ready, in seconds."""
        self._ready = ready
        self.load_s = load_s

    def _explain(self, doing: str) -> EngineError:
        after = exits.oom_counters()
        return exits.explain(
            exits.Exit(self.exit_code, self._killed_by_us, self._oom_before, after),
            self.log_path,
            doing=doing,
        )

    def _ours(self) -> bool:
        """Whether the pid is held for us: running, or dead and not reaped, and not seen from a fork."""
        return self._popen.returncode is None and self._owner == os.getpid()

    def _peek(self) -> os.waitid_result | None:
        """Look at the end of the process and leave it unreaped, so that nobody else gets its pid."""
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        pause_s = 0.002
        while self._peek() is None and time.monotonic() < deadline:
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)


def start(
    argv: Sequence[str],
    *,
    log_path: Path,
    command: Sequence[str] = EMBEDDED_COMMAND,
    label: str | None = None,
    cache_dir: Path | None = None,
    ready_timeout_s: float = 600.0,
    trace: bool = False,
    env: Mapping[str, str] | None = None,
) -> EngineProcess:
    """Start a server and wait until it is ready.

    Args:
        argv: llama-server's own flags.
        log_path: a file for its standard output and error; the folder is made, an older file is replaced.
        command: what takes the flags: the embedded server, or another program that keeps `handshake`'s
            promise. The flags are checked here only for the embedded server.
        label: the user's name for the build, for the record.
        cache_dir: where the hash of the server's library is kept.
        ready_timeout_s: the deadline for `/health` to say ok, in seconds.
        trace: whether the server logs a line for each verify step (`LLAMA_TRACE=1`).
        env: variables to add to this process's own environment, from which `LLAMA_*` is taken out.

    Raises:
        EngineError: `refused` (no engine installed, a flag or a file that it cannot follow), `crash`, `oom`,
            or `hang` (not ready in time; the process is ended).

    On Linux the server dies with the thread that starts it, so start it from the main thread or from one that
    outlives it; from another thread it ends within a second of this process's end instead.
    """
    if tuple(command) == EMBEDDED_COMMAND:
        require_embedded()
        flags.parse(argv)
    begin = time.monotonic()
    read_fd, write_fd = os.pipe()
    try:
        child_env = _environment(env, write_fd, trace)
        popen = spawn([*command, *argv], log_path=log_path, env=child_env, pass_fds=[write_fd])
        server = EngineProcess(popen, tuple(argv), log_path, cache_dir, label)
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    try:
        ready = readiness.wait(server, read_fd, begin + ready_timeout_s)
        server.became_ready(ready, time.monotonic() - begin)
    except BaseException:
        server.stop()
        raise
    finally:
        os.close(read_fd)
    return server


def require_embedded() -> None:
    """Raise `EngineError` (outcome `refused`) where the embedded engine is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise EngineError(
            "no engine is installed",
            outcome="refused",
            checked=[f"the Python package xllamacpp, for {sys.executable}"],
            fix='pip install "pytest-ngram[embedded]"',
        )


def spawn(
    command: Sequence[str], *, log_path: Path, env: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, its output in a file. Raises `EngineError` (`refused`)."""
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                pass_fds=tuple(pass_fds),
                # out of the terminal's group: Ctrl-C ends the tests, and they end the server
                start_new_session=True,
            )
    except OSError as error:
        raise EngineError(
            "the server cannot be started",
            outcome="refused",
            checked=[f"command: {' '.join(command)}", str(error)],
            fix="name a program that exists and may be executed, and a folder for logs that can be written",
        ) from error


def clean_environment(*, trace: bool) -> dict[str, str]:
    """This process's environment without `LLAMA_*`, which would set flags behind the command line's back.

    With `trace`, llama.cpp logs a line for each verify step.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    # a debugger attached at an abort takes seconds and says nothing about a stripped library
    env["GGML_NO_BACKTRACE"] = "1"
    if trace:
        env["LLAMA_TRACE"] = "1"
    return env


def _environment(extra: Mapping[str, str] | None, write_fd: int, trace: bool) -> dict[str, str]:
    """What the embedded server needs: the handshake's variables, and this package to import."""
    env = clean_environment(trace=trace)
    # the child imports what this process did: its own source tree, or the same installation by itself
    own = [] if _PACKAGE_ROOT.name == "site-packages" else [str(_PACKAGE_ROOT)]
    path = [*own, *filter(None, [env.get("PYTHONPATH")])]
    in_main = threading.current_thread() is threading.main_thread()
    env |= {
        **({"PYTHONPATH": os.pathsep.join(path)} if path else {}),
        "PYTHONUNBUFFERED": "1",
        handshake.FD_VARIABLE: str(write_fd),
        handshake.PARENT_VARIABLE: str(os.getpid()),
        handshake.DEATH_SIGNAL_VARIABLE: "1" if in_main else "0",
    }
    return env | dict(extra or {})


def _code_of(result: os.waitid_result | None) -> int | None:
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop(grace_s=1.0)
