"""llama.cpp's server inside a Python process: `python -m pytest_ngram.engine.embedded <llama-server flags>`.

Prints one line of JSON (`handshake.Ready`) when it listens: to the pipe whose number stands in
`PYTEST_NGRAM_READY_FD`, else to standard output. Everything else that llama.cpp says goes to standard error.
Exit codes: 2 for a command line that it cannot follow, 1 for a load that failed; a failed assertion inside
llama.cpp ends it by SIGABRT.

SIGTERM keeps its default action, which ends the process at once: the server holds nothing worth saving (an
`-lcd` file is read but never written by llama.cpp, issue 22055).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_ngram.engine import handshake
from pytest_ngram.engine.flag_table import Flag
from pytest_ngram.engine.flags import BY_KEY, Parsed, Value, parse
from pytest_ngram.errors import EngineError

PACKAGE = "xllamacpp"
# The tensors of a layer's experts, and the memory that they are kept in: llama.cpp's own (common/common.h).
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_CPU = "CPU"
# No model has more layers (llama.cpp's LLAMA_MAX_LAYERS); each override is tried on each tensor of a load.
_MAX_LAYERS = 512
_PR_SET_PDEATHSIG = 1
_PARENT_POLL_S = 0.5
_LAST_WORDS_S = 0.5  # llama.cpp writes its log in a thread of its own, which an exit cuts off


def main(argv: Sequence[str]) -> int:
    """Serve until the process is ended. Returns an exit code only when it could not start."""
    parent = _bind_to_parent()
    try:
        parsed = parse(argv)
        server = _start(parsed)
    except EngineError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    except Exception as error:  # what the extension raises has no common base
        time.sleep(_LAST_WORDS_S)
        print(f"the load failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    _announce(server)
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    return 0


def _bind_to_parent() -> int:
    """End with the parent, and return its pid. A parent that died before this line is noticed too."""
    parent = int(os.environ.get(handshake.PARENT_VARIABLE, os.getppid()))
    if os.environ.get(handshake.DEATH_SIGNAL_VARIABLE) == "1":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.getppid() != parent:
        os._exit(0)
    return parent


def _start(parsed: Parsed) -> Any:
    if not parsed.get("model", ""):
        raise EngineError("no model is named", outcome="refused", fix="name a GGUF file with -m")
    import xllamacpp

    return xllamacpp.Server(common_params(parsed, xllamacpp))


def common_params(parsed: Parsed, library: Any) -> Any:
    """Map a command line onto `CommonParams` of `library` (the `xllamacpp` module).

    Raises:
        EngineError: this build lacks the field or the enum member that a flag needs.
    """
    params = library.CommonParams()
    _fill_threads(parsed, params)
    for key, value in parsed.values.items():
        _set(params, BY_KEY[key], value, library)
    return params


def _fill_threads(parsed: Parsed, params: Any) -> None:
    """`-tb` and the draft's pools follow `-t` unless told otherwise, as in llama-server."""
    threads = _threads(parsed.get("threads", 0)) if "threads" in parsed.values else None
    if threads is not None:
        draft = params.speculative.draft
        for pool in (params.cpuparams_batch, draft.cpuparams, draft.cpuparams_batch):
            pool.n_threads = threads


def _threads(count: int) -> int:
    return count if count > 0 else os.cpu_count() or 1


def _set(params: Any, flag: Flag, value: Value, library: Any) -> None:
    *path, name = flag.target.split(".")
    holder = params
    for part in path:
        holder = getattr(holder, part, None)
    if not hasattr(holder, name):
        if flag.older is None or not hasattr(holder, flag.older) or len(tuple(value)) != 1:  # type: ignore[arg-type]
            raise _not_offered(flag, f"CommonParams has no {flag.target}")
        setattr(holder, flag.older, next(iter(value)))  # type: ignore[arg-type]
        return
    if flag.kind == "pairs" or flag.experts != "none":
        _add_overrides(holder, name, flag, value)
        return
    setattr(holder, name, _converted(flag, value, library))
    if flag.sampling_bit is not None:
        # without this bit the model file's own sampling defaults would win
        bits = library.common_params_sampling_config
        bit = getattr(bits, f"COMMON_PARAMS_SAMPLING_CONFIG_{flag.sampling_bit}")
        holder.user_sampling_config |= int(bit)


def _add_overrides(holder: Any, name: str, flag: Flag, value: Value) -> None:
    """Add to the overrides, in the order of the command line: the first that fits a tensor counts."""
    before = [getattr(holder, name)] if getattr(holder, name) else []
    try:
        setattr(holder, name, ",".join([*before, *overrides(flag, value)]))
    except ValueError as error:  # its list of those that exist has gone to the log
        raise EngineError(
            f"{flag.names[0]}: {error}",
            outcome="refused",
            checked=[f"given: {','.join(overrides(flag, value))}"],
            fix="name a buffer type of this build, as its log lists them",
        ) from error


def overrides(flag: Flag, value: Value) -> tuple[str, ...]:
    """Return the tensor overrides that a flag means, each `PATTERN=BUFFER_TYPE`.

    `--n-cpu-moe 2` is `blk\\.0\\.ffn_…_exps=CPU` and the same of layer 1, as in llama.cpp. More layers than
    a model can have are all of them: one override, not one for each.
    """
    if flag.experts == "all" or (flag.experts == "layers" and int(value) >= _MAX_LAYERS):  # type: ignore[arg-type]
        return (f"{_EXPERTS}={_CPU}",)
    if flag.experts == "layers":
        return tuple(rf"blk\.{layer}{_EXPERTS}={_CPU}" for layer in range(int(value)))  # type: ignore[arg-type]
    return tuple(value)  # type: ignore[arg-type]


def _converted(flag: Flag, value: Value, library: Any) -> object:
    if flag.kind == "types":
        return [_member(flag, word, library) for word in value]  # type: ignore[union-attr]
    if flag.kind == "choice":
        return _member(flag, str(value), library)
    if flag.key.startswith("threads") and flag.key != "threads-http":
        return _threads(int(value))  # type: ignore[arg-type]
    if flag.negated:
        return not value
    if flag.wrap == "list":
        return list(value)  # type: ignore[arg-type]
    return set(value) if flag.wrap == "set" else value  # type: ignore[arg-type]


def _member(flag: Flag, word: object, library: Any) -> object:
    chosen = flag.choices[str(word)]
    if flag.enum is None:
        return bool(chosen)
    member = getattr(getattr(library, flag.enum, None), str(chosen), None)
    if member is None:
        raise _not_offered(flag, f"{flag.enum} has no {chosen}")
    return member


def _not_offered(flag: Flag, checked: str) -> EngineError:
    return EngineError(
        f"{flag.names[0]} is not offered by this build",
        outcome="refused",
        checked=[f"{PACKAGE} {metadata.version(PACKAGE)}: {checked}"],
        fix="install another version of the package, or leave the flag out",
    )


def _announce(server: Any) -> None:
    import xllamacpp

    line = handshake.encode(_ready(server.listening_address, xllamacpp))
    number = os.environ.get(handshake.FD_VARIABLE)
    if number is None:
        print(line.decode(), end="", flush=True)
        return
    os.write(int(number), line)
    os.close(int(number))


def _ready(url: str, library: Any) -> handshake.Ready:
    from pytest_ngram.engine.embedded_build import build_of_library

    build = build_of_library(library)
    return handshake.Ready(
        url=url,
        pid=os.getpid(),
        package=build.package,
        version=build.version,
        build=build.build,
        library=_library_path(library),
        spec_types=build.spec_types,
        capabilities=build.capabilities,
    )


def build_of(version: str) -> str | None:
    """Return llama.cpp's build from the package's version: `2026.10.11549` is `b11549`.

    The rule: the third part of year.month.number is llama.cpp's build number. The extension itself says
    build 0, commit unknown. None where the version has another shape.
    """
    parts = version.split(".")
    return f"b{parts[2]}" if len(parts) >= 3 and parts[2].isdigit() else None


def _library_path(library: Any) -> str | None:
    """Return the extension's shared library, the file that is the server."""
    for path in sorted(Path(library.__file__).parent.glob("xllamacpp*.so")):
        return str(path)
    return None


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # the extension's threads may still run, and its destructors have nothing to save
    sys.stdout.flush()
    os._exit(code)
