"""Why a server ended: exit code or signal, known log lines, and the kernel's own account of memory kills."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.engine import log_tail
from pytest_ngram.errors import EngineError

_LOUD_LOG_BYTES = 256 * 1024 * 1024
_HINT_LINES = 400
# `0.00.019.354 E …`, and what is printed before the log begins: `error while handling argument "-ctk": …`
_ERROR_LINE = re.compile(r"(?:[\d.]+ E |(?=error[: ]))(.+)")


@dataclass(frozen=True)
class Hint:
    """A log line that names its own cause. `outcome` is what the cell records."""

    line_has: str
    outcome: str
    cause: str
    fix: str


HINTS: tuple[Hint, ...] = (
    Hint(
        "failed to create MTP context",
        "refused",
        "the model has no MTP block that this build can draft with",
        "use a GGUF converted with its MTP (nextn) layers, or another --spec-type",
    ),
    Hint(
        "ngram-cache.cpp",
        "refused",
        "llama.cpp aborted while it loaded the lookup table",
        "verify the table file; write it again from its corpus",
    ),
    Hint(
        "failed to open static lookup cache",
        "refused",
        "the lookup table cannot be opened",
        "give an existing, readable file with -lcs",
    ),
    Hint(
        "Couldn't read static lookup cache",
        "refused",
        "the lookup table cannot be read",
        "give an existing, readable file with -lcs, written for this model",
    ),
    Hint(
        "failed to initialize speculative decoding context",
        "refused",
        "the speculative flags do not fit the model or each other",
        "read the log line that says why, and change the flag",
    ),
    Hint(
        "n_ubatch > n_keep_tail",
        "refused",
        "-ub is too small for the drafts that were asked for",
        "give -ub of at least 2 + n_max",
    ),
    Hint(
        "unable to allocate",
        "oom",
        "llama.cpp could not allocate memory",
        "use a smaller -c, smaller -ub, or a smaller KV type with -ctk and -ctv",
    ),
    Hint(
        "failed to allocate",
        "oom",
        "llama.cpp could not allocate memory",
        "use a smaller -c, smaller -ub, or a smaller KV type with -ctk and -ctv",
    ),
    Hint(
        "bad_alloc",
        "oom",
        "llama.cpp could not allocate memory",
        "use a smaller -c, smaller -ub, or a smaller KV type with -ctk and -ctv",
    ),
    Hint(
        "error loading model",
        "refused",
        "llama.cpp cannot load the model",
        "read the log line that says why; the file may be damaged or of an architecture this build lacks",
    ),
    Hint(
        "address already in use",
        "refused",
        "the port is taken",
        "give --port 0, so that the system chooses a free one",
    ),
)


_SIGNALS: Mapping[int, tuple[str, str]] = {
    signal.SIGILL: (
        "this build needs instructions that this CPU lacks",
        "use a build for this CPU, such as a portable one",
    ),
    signal.SIGABRT: ("an assertion of llama.cpp failed", "read the log line before the abort"),
    signal.SIGSEGV: ("it touched memory that is not its own", "read the log; this is a defect of the build"),
}


@dataclass(frozen=True)
class Exit:
    """How a process ended.

    Args:
        code: as `subprocess` says it: the exit code, or minus the signal's number; None while it runs.
        killed_by_us: whether this package sent the signal.
        oom_before, oom_after: `oom_counters` at the start and at the end.
    """

    code: int | None
    killed_by_us: bool
    oom_before: Mapping[str, int]
    oom_after: Mapping[str, int]


def code_text(code: int | None) -> str:
    """Say an exit code in words: `exit code 2`, or `signal SIGABRT (6)`."""
    if code is None:
        return "still running"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name} ({-code})"
    except ValueError:
        return f"signal {-code}"


def explain(end: Exit, log_path: Path, *, doing: str) -> EngineError:
    """Say why the server is gone.

    Args:
        end: how it ended.
        log_path: its log.
        doing: what it was doing: `starting` or `running`.
    """
    tail = log_tail.tail(log_path, 20)
    hint = find_hint(log_tail.tail(log_path, _HINT_LINES)) if doing == "starting" else _last_gasp(tail)
    oom_rise = [name for name, count in end.oom_after.items() if count > end.oom_before.get(name, count)]
    killed = end.code == -signal.SIGKILL and not end.killed_by_us
    if killed and oom_rise:
        outcome, cause = "oom", "the kernel killed the server for want of memory"
        fix = "use a smaller -c, a smaller KV type, or a smaller model; close what else holds memory"
    elif hint is not None:
        outcome, cause, fix = hint.outcome, hint.cause, hint.fix
    else:
        outcome, cause, fix = _plain(end, doing, _first_error(log_tail.tail(log_path, _HINT_LINES)))
    checked = [code_text(end.code) + (", sent by us" if end.killed_by_us else ""), *_memory_text(end, killed)]
    checked.append(f"log: {log_path}{_loud(log_path)}")
    return EngineError(
        f"the server ended while {doing}: {cause}", outcome=outcome, checked=checked, fix=fix, log_tail=tail
    )


def find_hint(lines: Sequence[str]) -> Hint | None:
    """Return the hint whose line comes first in the log, None where no known line stands there."""
    for line in lines:
        for hint in HINTS:
            if hint.line_has in line:
                return hint
    return None


def oom_counters(root: Path = Path("/")) -> dict[str, int]:
    """Read how often the kernel killed for memory, by source; empty where nothing can be read.

    Sources: `memory.events` of this process's own control group (version 2), `memory.oom_control` (version
    1), and `/proc/vmstat`, which counts the whole host.
    """
    counters: dict[str, int] = {}
    for path in (*_cgroup_files(root), root / "proc/vmstat"):
        for line in _read(path).splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                counters[f"/{path.relative_to(root)} oom_kill"] = int(value)
    return counters


def _cgroup_files(root: Path) -> list[Path]:
    mount = root / "sys/fs/cgroup"
    files: list[Path] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        if not controllers:
            files.append(mount / place.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(mount / "memory" / place.lstrip("/") / "memory.oom_control")
    return files


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _last_gasp(tail: Sequence[str]) -> Hint | None:
    """Of a server that had been running, only want of memory explains an end by the log's last lines."""
    hint = find_hint(tail[-5:])
    return hint if hint is not None and hint.outcome == "oom" else None


def _first_error(lines: Sequence[str]) -> str | None:
    """Return the text of the first line that llama.cpp marks as an error."""
    for line in lines:
        found = _ERROR_LINE.match(line)
        if found is not None:
            return found[1]
    return None


def _plain(end: Exit, doing: str, error_line: str | None) -> tuple[str, str, str]:
    """Outcome, cause and fix of an end that the log does not explain."""
    code, starting = end.code, doing == "starting"
    if end.killed_by_us:
        return "crash", "this run ended it", "nothing, if that was meant"
    if code == 2 and starting:
        return "refused", "it cannot follow its command line", "change the flag that the log names"
    if code == 0:
        return "crash", "it ended by itself and reported no error", "read the log"
    if code is not None and code > 0:
        cause = f"it gave up, saying: {error_line}" if error_line else "it gave up"
        return "refused" if starting else "crash", cause, "read the log"
    cause, fix = _SIGNALS.get(-(code or 0), ("it was ended by a signal", "see what else ran on the host"))
    return "crash", cause, fix


def _memory_text(end: Exit, killed: bool) -> list[str]:
    if not killed:
        return []
    if not end.oom_after:
        return ["memory: no OOM counter of this host can be read, so an OOM kill cannot be told from another"]
    return [
        f"memory: {name} went from {end.oom_before.get(name, 0)} to {n}" for name, n in end.oom_after.items()
    ]


def _loud(log_path: Path) -> str:
    size = log_tail.size_bytes(log_path)
    return f" ({size / 2**20:.0f} MiB: lower the verbosity with -lv)" if size > _LOUD_LOG_BYTES else ""
