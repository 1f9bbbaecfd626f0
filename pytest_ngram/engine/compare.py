"""Holds a server that someone else started against what a start wants. Its flags are seen, never set."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from pytest_ngram.engine.looker import Seen
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.spec import STATEFUL_TYPES

# llama.cpp rounds a context up to a multiple of this
_CONTEXT_STEP = 256
# What is seen of the server itself, and what shows in nothing that is measured.
SEEN = frozenset({"model", "ctx-size", "parallel", "spec-type", "metrics", "slots"})
# What shows in nothing that is measured: where it listens, what it logs and serves besides.
_NOT_COMPARED = frozenset(
    {
        "host", "port", "verbosity", "verbose", "v", "alias", "api-prefix", "path", "props", "offline",
        "threads-http", "timeout", "to", "warmup", "no-warmup", "webui", "no-webui", "ui", "no-ui", "perf",
        "no-perf", "sleep-idle-seconds", "tags", "ssl-cert-file",
    }
)  # fmt: skip
# What changes speed and memory and, by the order in which numbers are added up, at most a near-tie of the
# text. Such a flag that is wanted and not told is warned of; any other may change the text, and is refused.
_OF_SPEED = frozenset(
    {
        "threads", "threads-batch", "poll", "poll-batch", "prio", "prio-batch", "cpu-strict",
        "cpu-strict-batch", "C", "cpu-mask", "Cr", "cpu-range", "Cb", "cpu-mask-batch", "Crb",
        "cpu-range-batch", "numa", "batch-size", "ubatch-size", "n-gpu-layers", "n-cpu-moe", "cpu-moe",
        "override-tensor", "split-mode", "tensor-split", "ts", "main-gpu", "device", "dev", "load-mode",
        "lazy-mode", "repack", "no-host", "op-offload", "kv-offload", "kv-unified", "cont-batching", "fit",
        "fit-ctx", "fit-target", "fitt", "cache-ram", "cache-prompt", "cache-reuse", "cache-idle-slots",
        "ctx-checkpoints", "checkpoint-min-step", "slot-prompt-similarity", "check-tensors",
    }
)  # fmt: skip
# Short names of flags of the draft model that the table of flags does not hold; others end in -draft.
_DRAFT_SHORT = frozenset(["hfd", "hfrd", "devd", "Cd", "Crd", "Cbd", "Crbd"])
_FILES = frozenset({"lookup-cache-static", "lookup-cache-dynamic", "spec-draft-model"})
# All that a server may have generated before a config that remembers: the one token by which it is looked at.
_PROBE_TOKENS = 1


def check_start(
    argv: Sequence[str],
    seen: Seen,
    *,
    told: Sequence[str] = (),
    n_vocab: int | None = None,
    tensor_bytes: int | None = None,
) -> tuple[str, ...]:
    """Refuse a start whose flags are not those of the running server.

    Args:
        argv: the command line that the start wants.
        seen: what the server tells.
        told: flags that the user says the server was started with, for those that it does not tell. Of
            drafting they are the whole list: what is not told is at llama.cpp's default.
        n_vocab, tensor_bytes: of the model file that the start names.

    Returns:
        Flags that are wanted and could not be compared, and whose other value would change speed, memory
        and at most a near-tie of the text, such as `-t`; to be warned of.

    Raises:
        EngineError: outcome `refused`, with every difference.
    """
    wanted = AnyFlags().parse(argv)
    types = seen.spec_types if seen.spec_types is not None else _told_types(told)
    flags, unseen = _flag_differences(argv, told, wanted.spec_types)
    differences = [
        *_model_differences(wanted.get("model", ""), seen, n_vocab, tensor_bytes),
        *_shape_differences(wanted.get("ctx-size", 0), wanted.get("parallel", 1), seen),
        *_type_differences(wanted.spec_types, types),
        *_told_type_differences(told, seen),
        *_state_differences(wanted.spec_types, seen),
        *_endpoint_differences(seen),
        *flags,
    ]
    _refuse_if(differences, "the running server is not the one that this config needs")
    return tuple(unseen)


def setting(argv: Sequence[str]) -> dict[str, str]:
    """Return the flags of a server by key, in one spelling each, without those of drafting.

    Two servers for two configs of a model have the same.
    """
    words, values = AnyFlags().group(argv), _values(argv)
    return {key: f"--{key} {_text(values[key])}".strip() for key in words if not _drafts(key)}


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check_model(model: str, seen: Seen, *, n_vocab: int | None, tensor_bytes: int | None) -> None:
    """Refuse a server with another model, all that tokenizing depends on. Raises `EngineError`."""
    _refuse_if(_model_differences(model, seen, n_vocab, tensor_bytes), "the running server has another model")


def _refuse_if(differences: Sequence[str], cause: str) -> None:
    if differences:
        raise EngineError(
            f"{cause}: {differences[0]}"
            + (f", and {len(differences) - 1} more" if len(differences) > 1 else ""),
            outcome="refused",
            checked=differences,
            fix="start it with the flags of the matrix, and say with --llama-server-flags how it was "
            "started: all flags of drafting (of one on llama.cpp's defaults, --spec-type alone), and what "
            "else changes text or speed; or give a llama-server binary, which is started for each config",
        )


def _flag_differences(
    argv: Sequence[str], told: Sequence[str], types: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return differences to what the user told, and flags of speed of which nothing is known."""
    flags = AnyFlags()
    words, said_words = flags.group(argv), flags.group(told)
    values, said = _values(argv), _values(told)
    drafting_told = any(_drafts(key) for key in said_words)
    differences = [] if drafting_told or not types else [_drafting_unknown(words, types)]
    unseen: list[str] = []
    for key in words.keys() - SEEN - _NOT_COMPARED:
        text = " ".join(words[key])
        if key in said and _same(key, values[key], said[key]):
            continue
        if key in said:
            differences.append(f"{text} is wanted, {' '.join(said_words[key])} is said to be set")
        elif _drafts(key) and drafting_told:
            differences.append(f"{text} is wanted, and is not among the flags told")
        elif key in _OF_SPEED:
            unseen.append(text)
        elif not (_drafts(key) and types):  # else all of drafting is unknown, which was said
            differences.append(f"{text} is wanted, and no answer of the server tells it")
    extra = [key for key in said_words.keys() - words.keys() - SEEN if _counts(key, drafting=bool(types))]
    differences += [f"{' '.join(said_words[key])} is said to be set, and is not wanted" for key in extra]
    return sorted(differences), sorted(unseen)


def _drafting_unknown(words: Mapping[str, Sequence[str]], types: Sequence[str]) -> str:
    wanted = [word for key in sorted(words) if key != "spec-type" and _drafts(key) for word in words[key]]
    return (
        f"{' '.join(wanted) or 'drafting'} is wanted, with the rest of drafting at llama.cpp's defaults, and "
        "no answer of the server tells what it has: if that is how it was started, say "
        f"--llama-server-flags='{' '.join(['--spec-type', ','.join(types), *wanted])}'"
    )


def _counts(key: str, *, drafting: bool) -> bool:
    """Whether a flag that was told and is not wanted makes a difference."""
    if _drafts(key):
        return drafting  # without a type it has nothing to decide
    return key not in _NOT_COMPARED and not key.startswith(("log-", "ssl-"))


def _values(argv: Sequence[str]) -> Mapping[str, object]:
    """Return typed values where they can be read, so that 0.50 is 0.5; else the words after the flag."""
    flags = AnyFlags()
    return {
        **{key: words[1:] for key, words in flags.group(argv).items()},
        **flags.parse(argv).values,
    }


def _same(key: str, wanted: object, said: object) -> bool:
    if wanted == said or key not in _FILES:
        return wanted == said
    here, there = Path(str(wanted)), Path(str(said))
    if here.is_file() and there.is_file():
        return filecmp.cmp(here, there, shallow=False)
    return here.name == there.name  # it lies on the server's own host


def _drafts(key: str) -> bool:
    """Whether a flag decides what is drafted or how fast, and so what is being compared."""
    return key.startswith(("spec-", "lookup-cache", "draft")) or key.endswith("-draft") or key in _DRAFT_SHORT


def _told_types(told: Sequence[str]) -> tuple[str, ...] | None:
    parsed = AnyFlags().parse(told)
    return parsed.spec_types if "spec-type" in parsed.values else None


def _told_type_differences(told: Sequence[str], seen: Seen) -> list[str]:
    """What was told of another start of the server says nothing about this one."""
    types = _told_types(told)
    if types is None or seen.spec_types is None or set(types) == set(seen.spec_types):
        return []
    runs = ", ".join(seen.spec_types) or "without speculation"
    return [f"{' '.join(AnyFlags().group(told)['spec-type'])} is said to be set, the server runs {runs}"]


def _model_differences(wanted: str, seen: Seen, n_vocab: int | None, tensor_bytes: int | None) -> list[str]:
    found: list[str] = []
    if wanted and seen.model_path and PurePath(wanted).name != PurePath(seen.model_path).name:
        found.append(
            f"the model {PurePath(wanted).name} is wanted, {PurePath(seen.model_path).name} is loaded"
        )
    for name, want, have in (
        ("vocabulary (tokens)", n_vocab, seen.n_vocab),
        ("weights (bytes)", tensor_bytes, seen.tensor_bytes),
    ):
        if want is not None and have is not None and want != have:
            found.append(f"the model's {name}: {want} are wanted, {have} are loaded")
    return found


def _shape_differences(n_ctx: int, n_parallel: int, seen: Seen) -> list[str]:
    found: list[str] = []
    padded = -(-n_ctx // _CONTEXT_STEP) * _CONTEXT_STEP
    if n_ctx and seen.n_ctx not in (n_ctx, padded, None):
        found.append(f"-c {n_ctx} is wanted, a slot has {seen.n_ctx}")
    if seen.total_slots not in (n_parallel, None):
        found.append(f"-np {n_parallel} is wanted, the server has {seen.total_slots} slots")
    return found


def _type_differences(wanted: Sequence[str], have: Sequence[str] | None) -> list[str]:
    """Compare types; their order has no effect in llama.cpp."""
    if have is None:
        return ["the server does not tell which types it drafts with"]
    if set(wanted) == set(have):
        return []
    runs = ", ".join(have) or "without speculation"
    return [f"{', '.join(wanted) or 'no speculation'} is wanted, the server runs {runs}"]


def _state_differences(wanted: Sequence[str], seen: Seen) -> list[str]:
    """What a type remembers of requests outlives a block here, since nobody starts the server anew."""
    lasting = [name for name in wanted if name in STATEFUL_TYPES]
    if not lasting or (seen.n_generated is not None and seen.n_generated <= _PROBE_TOKENS):
        return []
    before = "requests" if seen.n_generated is None else f"requests of {seen.n_generated:.0f} tokens"
    return [
        f"{', '.join(lasting)} remembers earlier {before}: start the server anew for each block, "
        "and go on with --ngram-resume"
    ]


def _endpoint_differences(seen: Seen) -> list[str]:
    answers = {"metrics": seen.metrics, "slots": seen.slots}
    return [f"/{name} is off: start the server with --{name}" for name, on in answers.items() if not on]
