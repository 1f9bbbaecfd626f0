"""A llama-server binary in a process of its own, with the guarantees of `engine.process`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ngram import record
from pytest_ngram.engine import (
    capabilities,
    code_files,
    guard,
    handshake,
    isa,
    lasting,
    listening,
    packaged,
    process,
    readiness,
)
from pytest_ngram.engine.build import Build
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.vocabulary import BinaryFlags
from pytest_ngram.errors import EngineError

# isolated and without site: it starts at once, and the environment has no say in it
_GUARD = (sys.executable, "-I", "-S", str(Path(guard.__file__).resolve()))


class BinaryProcess(EngineProcess):
    """A running llama-server binary. Use it as a context manager, or call `stop`.

    Args:
        popen: the process.
        argv: llama-server's own command line.
        log_path: its output.
        program: the binary, or the script that ends in executing it.
        build: what it says of itself.
        label: the user's name for the build.
        cache_dir: where hashes are kept.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        argv: tuple[str, ...],
        log_path: Path,
        *,
        program: Path,
        build: Build,
        label: str | None,
        cache_dir: Path | None,
    ) -> None:
        super().__init__(popen, argv, log_path, cache_dir, label)
        self.program = program
        self.build = build
        self._code: tuple[Path, ...] = ()

    def became_ready(self, ready: handshake.Ready, load_s: float) -> None:
        """Note where it listens, how long it took, and which files its code is in."""
        super().became_ready(ready, load_s)
        self._code = code_files.of_process(self.pid, self.program)

    def explain_exit(self) -> EngineError:
        """Say why the process ended; of SIGILL, which instructions this CPU lacks."""
        error = super().explain_exit()
        if self.exit_code == -signal.SIGILL:
            return isa.explain_sigill(error, self.program, self.log_path, isa.cpu_flags())
        return error

    def describe(self) -> record.Engine:
        """Say which engine this is. The hash is over the binary and llama.cpp's libraries that it loaded."""
        return record.Engine(
            kind="binary",
            package=self.build.package,
            version=self.build.version,
            build=self.build.build,
            label=self._label,
            binary_sha256=self._sha256(),
            argv=self.argv,
            spec_types=self.build.spec_types,
            capabilities=self.build.capabilities,
        )

    def _sha256(self) -> str | None:
        try:
            return code_files.sha256(self._code or code_files.beside(self.program), self._cache_dir)
        except OSError:
            return None


def start(
    argv: Sequence[str],
    *,
    program: Path,
    log_path: Path,
    label: str | None = None,
    cache_dir: Path | None = None,
    ready_timeout_s: float = 600.0,
    trace: bool = False,
    env: Mapping[str, str] | None = None,
) -> BinaryProcess:
    """Start a llama-server binary and wait until it is ready.

    Args:
        argv: its flags, checked against its own `--help`. Give `--port 0`: the kernel then chooses a free
            port, whatever the build, and where it listens is read from its log or its sockets.
        program: the binary; a script is fine if it executes the binary in its own place.
        log_path: a file for its standard output and error; the folder is made, an older file is replaced.
        label: the user's name for the build, for the record.
        cache_dir: where hashes, what the build has, and links between libraries are kept.
        ready_timeout_s: the deadline for `/health` to say ok, in seconds.
        trace: whether the server logs a line for each verify step (`LLAMA_TRACE=1`).
        env: variables to add to this process's own environment, from which `LLAMA_*` is taken out.

    The server ends with this process, however that ends, and whichever thread called.

    Raises:
        EngineError: `refused` (it cannot be executed or loaded, a flag it does not have, a file it cannot
            follow), `crash`, `oom`, or `hang` (not ready in time; the process is ended).
    """
    build = capabilities.probe_binary(program, cache_dir)
    BinaryFlags(build).group(argv)
    begin = time.monotonic()
    environment = process.clean_environment(trace=trace)
    environment |= _library_path(program, cache_dir) | dict(env or {})
    command = [*_GUARD, str(os.getpid()), str(program), *argv]
    popen = lasting.call(lambda: process.spawn(command, log_path=log_path, env=environment))
    server = BinaryProcess(
        popen, tuple(argv), log_path, program=program, build=build, label=label, cache_dir=cache_dir
    )
    try:
        server.became_ready(_wait(server, begin + ready_timeout_s), time.monotonic() - begin)
    except BaseException:
        server.stop()
        raise
    return server


def _wait(server: BinaryProcess, deadline: float) -> handshake.Ready:
    """Say for the binary what it cannot say itself, and let the one rule for ready judge it."""
    url = listening.wait_for_url(server, server.log_path, deadline)
    _refuse_wrapper(server)
    read_fd, write_fd = os.pipe()
    try:
        if url is not None:
            os.write(write_fd, handshake.encode(handshake.Ready(url=url, pid=server.pid)))
        return readiness.wait(server, read_fd, deadline)
    finally:
        os.close(read_fd)
        os.close(write_fd)


def _refuse_wrapper(server: BinaryProcess) -> None:
    """Refuse a script that starts the server beside itself: what we would watch is not the server."""
    child = listening.listening_child(server.pid)
    if child is not None:
        raise EngineError(
            f"{server.program.name} starts the server as another process instead of becoming it",
            outcome="refused",
            checked=[f"process {server.pid} does not listen, its child {child} does"],
            fix="write exec before the server in that script, or name the server itself",
        )


def _library_path(program: Path, cache_dir: Path | None) -> dict[str, str]:
    folder = packaged.library_folder(program, cache_dir)
    if folder is None:
        return {}
    before = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(folder), *before])}
