"""For which engine a golden holds: what a server was started as, and what its code was compiled for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.vocabulary import Vocabulary
from pytest_ngram.errors import EngineError
from pytest_ngram.judge.golden import Fingerprint
from pytest_ngram.matrix.spec import ConfigSpec, ModelSpec
from pytest_ngram.measure.models import Model

_HEAD_BYTES = 256 * 1024
_SYSTEM = re.compile(r"system_info: n_threads = (\d+) \(n_threads_batch = (\d+)\)[^|]*\|(.*)")
_BACKEND = re.compile(r"\b(\w+) : ")
_FEATURE = re.compile(r"(\w+) = 1")
_MODEL_CHARS = 16
# flags that have a field of their own, and those that move no number
_TOLD = {
    "threads",
    "threads-batch",
    "batch-size",
    "ubatch-size",
    "cache-type-k",
    "cache-type-v",
    "flash-attn",
}
_NO_MATTER = {"ctx-size", "parallel", "cache-ram", "fit", "verbosity", "load-mode", "metrics", "slots"}


def model_key(spec: ModelSpec, model: Model) -> str:
    """Return what a golden calls its model: the rule that its text follows, else the file's hash."""
    if spec.generate is not None:
        return f"rule of seed {spec.generate.seed}"
    return model.record.sha256[:_MODEL_CHARS]


def fingerprint(
    spec: ModelSpec, config: ConfigSpec, model: Model, engine: RunningEngine, known: Vocabulary
) -> Fingerprint:
    """Return the fingerprint of a running baseline server.

    Args:
        spec, config: the model and the baseline, as the matrix has them.
        model: the file.
        engine: the server.
        known: the flags that it takes.

    The code of the embedded engine is one library, compiled once: all processors that can run it at all run
    the same instructions. A build that picks one of several CPU libraries says in `system_info` which one.
    """
    key = model_key(spec, model)
    if spec.generate is not None:
        return Fingerprint(model=key)
    parsed = known.parse(engine.argv)
    threads, threads_batch, isa = system_info(_head(engine.log_path))
    about = engine.describe()

    def value(flag: str, default: Any) -> Any:
        return parsed.get(flag, default)

    return Fingerprint(
        model=key,
        family=about.package or ("llama-server" if about.kind == "binary" else about.kind),
        isa=isa,
        threads=threads,
        threads_batch=threads_batch,
        batch=value("batch-size", 2048),
        ubatch=value("ubatch-size", 512),
        cache_k=value("cache-type-k", "f16"),
        cache_v=value("cache-type-v", "f16"),
        flash_attn=str(value("flash-attn", "auto")),
        flags=_other_flags(known, f"{spec.flags} {config.flags}"),
    )


def _other_flags(known: Vocabulary, words: str) -> tuple[str, ...]:
    grouped = known.group(shlex.split(words))
    return tuple(" ".join(group) for key, group in sorted(grouped.items()) if key not in _TOLD | _NO_MATTER)


def system_info(log_text: str) -> tuple[int, int, tuple[str, ...]]:
    """Return threads, batch threads, and what the code was compiled for, of the `system_info` line.

    `CPU : AVX2 = 1 | FMA = 1 | REPACK = 1` gives `CPU`, `AVX2`, `FMA`, `REPACK`: the last is no instruction
    set but decides kernels all the same.

    Raises:
        EngineError: there is no such line, or it has another form: nothing tells what a golden holds for.
    """
    found = _SYSTEM.search(log_text)
    if found is None:
        near = [line for line in log_text.splitlines() if "system_info" in line]
        raise EngineError(
            "the server's log has no system_info line that can be read",
            outcome="refused",
            checked=near[:1] or ["no line of the log names system_info"],
            fix="compare the line's form with `_SYSTEM` in pytest_ngram/evidence/fingerprint.py",
        )
    rest = found[3]
    return int(found[1]), int(found[2]), (*_BACKEND.findall(rest), *_FEATURE.findall(rest))


def _head(path: Path | None) -> str:
    if path is None:
        return ""
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES).decode("utf-8", "replace")
