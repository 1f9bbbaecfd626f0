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
_NOT_COMPARED = frozenset({"host", "port", "verbosity", "verbose", "alias"})
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
        told: flags that the user says the server was started with, for those that it does not tell.
        n_vocab, tensor_bytes: of the model file that the start names.

    Returns:
        Flags that could not be compared and that change speed at most, such as `-t`; to be warned of.

    Raises:
        EngineError: outcome `refused`, with every difference.
    """
    wanted = AnyFlags().parse(argv)
    types = seen.spec_types if seen.spec_types is not None else _told_types(told)
    flags, unseen = _flag_differences(argv, told, drafting=bool(wanted.spec_types))
    differences = [
        *_model_differences(wanted.get("model", ""), seen, n_vocab, tensor_bytes),
        *_shape_differences(wanted.get("ctx-size", 0), wanted.get("parallel", 1), seen),
        *_type_differences(wanted.spec_types, types),
        *_state_differences(wanted.spec_types, seen),
        *_endpoint_differences(seen),
        *flags,
    ]
    _refuse_if(differences, "the running server is not the one that this config needs")
    return tuple(unseen)


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
            fix="start it with these flags, and say with --llama-server-flags those that it does not tell; "
            "or give a llama-server binary, which is started for each config",
        )


def _flag_differences(
    argv: Sequence[str], told: Sequence[str], *, drafting: bool
) -> tuple[list[str], list[str]]:
    """Return differences to what the user told, and flags of speed of which nothing is known."""
    flags = AnyFlags()
    words, said_words = flags.group(argv), flags.group(told)
    values, said = _values(argv), _values(told)
    differences: list[str] = []
    unseen: list[str] = []
    for key in words.keys() - SEEN - _NOT_COMPARED:
        text = " ".join(words[key])
        if key in said and _same(key, values[key], said[key]):
            continue
        if key in said:
            differences.append(f"{text} is wanted, {' '.join(said_words[key])} is said to be set")
        elif _drafts(key):
            differences.append(f"{text} is wanted, and no answer of the server tells what is set")
        else:
            unseen.append(text)
    extra = [key for key in said.keys() - words.keys() - SEEN if drafting and _drafts(key)]
    differences += [f"{' '.join(said_words[key])} is said to be set, and is not wanted" for key in extra]
    return sorted(differences), sorted(unseen)


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
    """Whether a flag decides what is drafted, and so what is being compared."""
    return key.startswith(("spec-", "lookup-cache", "draft"))


def _told_types(told: Sequence[str]) -> tuple[str, ...] | None:
    parsed = AnyFlags().parse(told)
    return parsed.spec_types if "spec-type" in parsed.values else None


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
