"""What a build offers: asked of the program once, observed from one request, and held against a config."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from pytest_ngram.engine import code_files, executable, isa, log_reader, packaged
from pytest_ngram.engine.build import Build, not_offered, of_flags, spec_types_of
from pytest_ngram.engine.client import Client, CompletionRequest, CompletionResult
from pytest_ngram.engine.help_text import parse_help, parse_version
from pytest_ngram.engine.run_to_end import run_to_end
from pytest_ngram.errors import EngineError
from pytest_ngram.files import write_whole

__all__ = [
    "ASK_TIMEOUT_S",
    "Build",
    "not_offered",
    "observe",
    "observed",
    "probe_binary",
    "probe_embedded",
    "probe_server",
    "require_llama_server",
]

_SCHEMA = 2
ASK_TIMEOUT_S = 60.0
_LOG_PATIENCE_S = 1.0
_ENDS = "total time ="
_METRIC = "llamacpp:"
# Every llama-server lists these; llama-cli and the others lack the last.
_OWN_FLAGS = ("--model", "--ctx-size", "--port")
_PER_POSITION = f"{_METRIC}spec_decode_num_accepted_tokens_per_pos_total"
# Repeats itself, so that every n-gram type with short matches finds something to draft.
PROBE_TEXT = "one two three four five six seven eight " * 6
PROBE_TOKENS = 24


def probe_binary(program: Path, cache_dir: Path | None, *, timeout_s: float = ASK_TIMEOUT_S) -> Build:
    """Ask a llama-server binary for `--help` and `--version`.

    Args:
        program: the binary, or a script that ends in executing one.
        cache_dir: where the answer is kept, by the hash of the binary and the libraries beside it. What a
            script starts cannot be hashed, so a script is asked each time.
        timeout_s: for each of the two answers.

    A program that does not list its flags gives a `Build` without flags.

    Raises:
        EngineError: `refused` where it cannot be loaded, `crash` where a signal ends it (SIGILL explained),
            `hang` where it does not answer in time.
    """
    kept = _kept(program, cache_dir)
    said = _load(kept)
    if said is None:
        environment = asking_environment(program, cache_dir)
        flags = parse_help(_ask(program, "--help", environment, timeout_s))
        version = parse_version(_ask(program, "--version", environment, timeout_s))
        said = Build(
            name="",
            build=version.build,
            spec_types=spec_types_of(flags),
            flags=flags,
            capabilities=of_flags(flags),
        )
        if kept is not None:
            with suppress(OSError):
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_whole(kept, msgspec.json.encode(said))
    return _placed(said, program)


def require_llama_server(build: Build, program: Path) -> None:
    """Refuse a program that does not answer as llama-server: by its flags, or its version if it lists none.

    Raises:
        EngineError: outcome `refused`.
    """
    names = {name for flag in build.flags for name in flag.names}
    missing = [name for name in _OWN_FLAGS if name not in names]
    if not missing or (not names and build.build is not None):
        return
    raise EngineError(
        f"{program} is not a llama-server",
        outcome="refused",
        checked=[
            f"{program} --help: it does not list {', '.join(missing)}",
            f"{program} --version: {build.build or 'no build of llama.cpp is named'}",
        ],
        fix="name llama-server itself, the root of its build, or a script that ends in "
        '`exec llama-server "$@"` and so answers --help as it does',
    )


def _placed(said: Build, program: Path) -> Build:
    """Add what the place of the binary tells: the same bytes may lie in a package and outside of one."""
    package_version = packaged.version_of(program)
    return msgspec.structs.replace(
        said,
        name=_name(program, package_version, said.build),
        package=packaged.PACKAGE if package_version else None,
        version=package_version,
        build=said.build or _build_of_package(package_version),
    )


def probe_embedded() -> Build:
    """Ask the embedded engine, in a process of its own: its library is never loaded into this one.

    Raises:
        EngineError: as `probe_binary`; `refused` where the package is not installed.
    """
    command = [sys.executable, "-P", "-m", "pytest_ngram.engine.embedded_build"]
    # the child imports what this process did: its own source tree, or the same installation by itself
    root = Path(__file__).parents[2]
    own = [] if root.name == "site-packages" else [str(root)]
    path = [*own, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            "the embedded engine cannot be asked what it has",
            outcome="hang",
            checked=[f"no answer within {ASK_TIMEOUT_S:g} s: {' '.join(command)}"],
            fix="find out what keeps that command from ending",
        ) from error
    if done.returncode != 0:
        raise EngineError(
            "the embedded engine cannot be asked what it has",
            outcome="refused",
            checked=[f"exit code {done.returncode}", *done.stderr.strip().splitlines()[-3:]],
            fix='pip install "pytest-ngram[embedded]"',
        )
    return msgspec.json.decode(done.stdout, type=Build)


def probe_server(
    client: Client, log_path: Path | None, *, timeout_s: float = 120.0, text: str = PROBE_TEXT
) -> dict[str, bool]:
    """Send one small request and return what its answer and its log show, by the names of `OF_REQUESTS`.

    It leaves a state behind in types that keep one, so never send it to a server that is to be measured. To
    see drafts it must be started with a type, and with `LLAMA_TRACE=1` to see trace lines.

    Args:
        client: of the server.
        log_path: its log, None for a URL.
        timeout_s: for the request.
        text: the prompt; one that the server's type drafts for, where drafts are to be seen.

    Raises:
        EngineError: the server did not answer it.
    """
    offset = log_path.stat().st_size if log_path is not None else 0
    ids = client.tokenize(text, parse_special=False, add_special=True)
    request = CompletionRequest(
        prompt=ids, n_predict=PROBE_TOKENS, temperature=0.0, seed=1, extra={"ignore_eos": True}
    )
    result = client.completion(request, timeout_s=timeout_s)
    return observe(client, result, _new_lines(log_path, offset) if log_path is not None else None)


def observe(client: Client, result: CompletionResult, lines: Sequence[str] | None) -> dict[str, bool]:
    """Return what a server shows right after an answer; `lines` are the log's of it, None without a log.

    Raises:
        EngineError: the server died or hangs.
    """
    return observed(result, _metrics(client), slots=_slots(client), lines=lines)


def observed(
    result: CompletionResult,
    metrics: Mapping[str, float] | None,
    *,
    slots: bool,
    lines: Sequence[str] | None,
) -> dict[str, bool]:
    """Return what one answer shows. Pure.

    Args:
        result: the answer.
        metrics: `/metrics` after it or what it added to them, None where they are off.
        slots: whether `/slots` answers.
        lines: the log's lines of it, None where there is no log.

    What only a draft can show is left out where nothing was drafted.
    """
    counted = metrics or {}
    drafted = (
        bool(result.timings.draft_n) or counted.get(f"{_METRIC}spec_decode_num_draft_tokens_total", 0) > 0
    )
    seen = {
        "metrics": metrics is not None,
        "slots": slots,
        "slot-progress": slots,
        "token-ids": len(result.tokens) == result.timings.predicted_n,
    }
    if metrics is not None:
        seen["n-decode-total"] = f"{_METRIC}n_decode_total" in metrics
        seen["draft-counts"] = f"{_METRIC}spec_decode_num_draft_tokens_total" in metrics
        seen["verify-counts"] = f"{_METRIC}spec_decode_num_drafts_total" in metrics
    if metrics is not None and drafted:
        seen["per-position-counts"] = any(name.startswith(_PER_POSITION) for name in metrics)
    if drafted:
        seen["timings-drafts"] = result.timings.draft_n is not None
    if lines is not None:
        seen["timing-lines"] = any(log_reader.timing(line) for line in lines)
        if any(log_reader.statistics(line) for line in lines):
            seen["statistics-lines"] = True
    if lines is not None and drafted:
        seen["acceptance-lines"] = any(log_reader.acceptance(line) for line in lines)
        seen["per-position-lines"] = any(log_reader.rates_per_position(line) for line in lines)
        seen["statistics-lines"] = any(log_reader.statistics(line) for line in lines)
        seen["trace-lines"] = any(log_reader.trace_step(line) for line in lines)
    return seen


def asking_environment(program: Path, cache_dir: Path | None) -> dict[str, str]:
    """Return this process's environment without `LLAMA_*`, with the links that the program's libraries need.

    Raises:
        EngineError: as `packaged.library_folder`.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    folder = packaged.library_folder(program, cache_dir)
    if folder is not None:
        path = [str(folder), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path)
    return environment


def _ask(program: Path, flag: str, environment: Mapping[str, str], timeout_s: float) -> str:
    try:
        code, said = run_to_end([str(program), flag], environment, timeout_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _cannot_ask(program, flag, "hang", f"no answer within {timeout_s:g} s", "") from error
    except OSError as error:
        raise _cannot_ask(program, flag, "refused", str(error), "") from error
    if code == -signal.SIGILL:
        plain = _cannot_ask(program, flag, "crash", "signal SIGILL (4)", said)
        raise isa.explain_sigill(plain, program, Path(os.devnull), isa.cpu_flags())
    if code < 0:
        name = signal.Signals(-code).name
        raise _cannot_ask(program, flag, "crash", f"signal {name} ({-code})", said)
    if code == 127:  # the loader's own code: a library is missing
        raise _cannot_ask(program, flag, "refused", "exit code 127", said)
    return said if code == 0 else ""


def _cannot_ask(program: Path, flag: str, outcome: str, what: str, said: str) -> EngineError:
    lines = [line for line in said.splitlines() if line.strip()]
    fix = "what it lacks must be installed, or another build used"
    if outcome == "hang":
        fix = "see what it waits for, such as a driver or a network drive, or use another build"
    return EngineError(
        f"{program.name} cannot be asked what it has" + (f": {lines[-1]}" if lines else ""),
        outcome=outcome,
        checked=[f"{program} {flag}", what],
        fix=f"run that command by hand; {fix}",
        log_tail=tuple(lines[-20:]),
    )


def _kept(program: Path, cache_dir: Path | None) -> Path | None:
    script = executable.head_of(program).startswith(b"#!")
    if cache_dir is None or script:
        return None
    try:
        digest = code_files.sha256(code_files.beside(program), cache_dir)
    except OSError:  # a library beside it that we may not read: it is asked each time
        return None
    return cache_dir / f"build-{_SCHEMA}-{digest[:32]}.json"


def _load(kept: Path | None) -> Build | None:
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Build) if kept is not None else None
    except (OSError, msgspec.DecodeError):
        return None


def _name(program: Path, package_version: str | None, build: str | None) -> str:
    name = f"{packaged.PACKAGE} {package_version}" if package_version else str(program)
    return f"{name} ({build})" if build else name


def _build_of_package(version: str | None) -> str | None:
    """The package's version begins with llama.cpp's build number: 11434.0.0 is b11434."""
    number = (version or "").partition(".")[0]
    return f"b{number}" if number.isdigit() else None


def _metrics(client: Client) -> dict[str, float] | None:
    try:
        return client.metrics()
    except EngineError as error:
        if error.outcome != "refused":
            raise
        return None


def _slots(client: Client) -> bool:
    try:
        return bool(client.slots())
    except EngineError as error:
        if error.outcome != "refused":
            raise
        return False


def _new_lines(log_path: Path, offset: int) -> list[str]:
    """Return the log's lines from `offset` on; the server writes the last of them after its answer."""
    deadline = time.monotonic() + _LOG_PATIENCE_S
    while True:
        with log_path.open("rb") as log:
            log.seek(offset)
            text = log.read().decode("utf-8", "replace")
        ended = _ENDS in text and "all slots are idle" in text.partition(_ENDS)[2]
        if ended or time.monotonic() > deadline:
            return text.splitlines()
        time.sleep(0.01)
