"""What can be known to fail before a server starts, from the model file's facts and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pytest_ngram.engine.flags import Parsed
from pytest_ngram.errors import EngineError
from pytest_ngram.table.price import Need

# Types that draft with a model of their own state; llama.cpp keeps n_max recurrent states for them.
_STATEFUL_DRAFTS = frozenset({"draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"})
_DRAFTS = _STATEFUL_DRAFTS | {"draft-simple"}
_NEED_DRAFT_MODEL = _DRAFTS - {"draft-mtp"}
# llama.cpp's own defaults where the command line is silent
_DEFAULT_UBATCH = 512
_DEFAULT_N_MAX = 3
_VOCAB_SIZE_DIFFERENCE = 128
VOCAB_CHECK_FROM = 5


class Facts(Protocol):
    """What is needed of a model file (`pytest_ngram.models.gguf_file.ModelFacts` has it)."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def arch(self) -> str:
        """`general.architecture`."""
        ...

    @property
    def nextn(self) -> int:
        """MTP layers, 0 where there is none."""
        ...

    @property
    def n_ctx_train(self) -> int:
        """Context length that the file states, in tokens."""
        ...

    @property
    def recurrent_layers(self) -> int:
        """Layers with a recurrent state, 0 on plain attention models."""
        ...

    @property
    def n_vocab(self) -> int:
        """Tokens."""
        ...


def check(facts: Facts, parsed: Parsed) -> tuple[str, ...]:
    """Look at one server start.

    Returns:
        Warnings: things that work but are seldom meant.

    Raises:
        EngineError: outcome `refused`: the server would not start, or would not do what the flags say.
    """
    _check_mtp(facts, parsed)
    _check_ubatch(facts, parsed)
    _check_tables(parsed)
    _check_draft_model(parsed)
    return tuple(_context_warnings(facts, parsed))


def check_draft(facts: Facts, draft: Facts, differ_at: int | None) -> None:
    """Compare the vocabularies of a model and of the one that drafts for it, as llama.cpp does.

    Its rule (b11434, `common_speculative_are_compatible`): the numbers of tokens differ by 128 at most, and
    from id 5 on each token that both have is the same text.

    Args:
        differ_at: the first id from `VOCAB_CHECK_FROM` that stands for different texts; None for none.

    Raises:
        EngineError: outcome `refused`: the draft's ids would mean other texts.
    """
    sizes = [f"{facts.path}: {facts.n_vocab} tokens", f"{draft.path}: {draft.n_vocab} tokens"]
    if abs(facts.n_vocab - draft.n_vocab) > _VOCAB_SIZE_DIFFERENCE:
        what = f"more than {_VOCAB_SIZE_DIFFERENCE} tokens apart"
    elif differ_at is not None:
        what = f"token {differ_at} differs"
    else:
        return
    raise _refuse(
        f"the draft model has another vocabulary: {what}",
        sizes,
        "draft with a smaller model of the same family, or a smaller quantisation of the same model",
    )


def check_memory(
    model_bytes: int,
    anonymous_need_bytes: int,
    available_bytes: int,
    *,
    table: Need | None = None,
    force: bool,
    override: str = "--ngram-force",
) -> str | None:
    """Compare what a start needs with what is free.

    Args:
        model_bytes: size of the model file, which the kernel may page in and out; 0 where that is counted as
            anonymous, or where layers go to a GPU.
        anonymous_need_bytes: what cannot be paged out to a file: KV cache, buffers.
        available_bytes: what the host can give without swapping.
        table: what the static table needs, predicted. It takes the pages of the model away, for good, so with
            a table the model has to fit too.
        force: warn where this would refuse.
        override: the option that sets `force`.

    Returns:
        A warning with the numbers, or None.

    Raises:
        EngineError: outcome `refused`: the anonymous need exceeds what is available, or with a table the
            model does not fit beside it; and not `force`.
    """
    error = _short_of_memory(anonymous_need_bytes, available_bytes, override)
    if error is None and table is not None:
        room_bytes = available_bytes - anonymous_need_bytes - model_bytes
        error = _short_for_table(table, model_bytes, anonymous_need_bytes, room_bytes, override)
    if error is not None and not force:
        raise error
    if error is not None:
        return error.cause
    if model_bytes + anonymous_need_bytes > available_bytes:
        return (
            f"the model is {_gib(model_bytes)} and the server needs {_gib(anonymous_need_bytes)} more, "
            f"{_gib(available_bytes)} are available: parts of the file will be read again and again"
        )
    return None


def _short_of_memory(need_bytes: int, available_bytes: int, override: str) -> EngineError | None:
    if need_bytes <= available_bytes:
        return None
    return _refuse(
        f"the server needs {_gib(need_bytes)} of its own, {_gib(available_bytes)} are available",
        ["KV cache and recurrent state, a lower bound; the model file is not counted, it may be paged"],
        f"use a smaller -c, or -ctk q8_0 -ctv q8_0, or give {override}",
    )


def _short_for_table(
    table: Need, model_bytes: int, own_bytes: int, room_bytes: int, override: str
) -> EngineError | None:
    """An error where a table needs more than is left beside model and caches."""
    need_bytes = table.price.need_bytes
    if need_bytes <= room_bytes:
        return None
    available_bytes = room_bytes + own_bytes + model_bytes
    beside_bytes = own_bytes + model_bytes
    whole = f", with model and caches {_gib(need_bytes + beside_bytes)}" if beside_bytes else ""
    checked = [f"{table.keys} keys, {table.pairs} pairs, -np {table.slots}: predicted; {table.source}"]
    if beside_bytes:
        checked.append(
            f"model file {_gib(model_bytes)}; KV cache and recurrent state at least {_gib(own_bytes)}"
        )
    advice = [table.advice(max(0, room_bytes))]
    if table.slots > 1:
        advice.append(f"take fewer slots than -np {table.slots}: each has a copy of the table")
    return _refuse(
        f"the table {table.name} needs {_gib(need_bytes)}{whole}; {_gib(available_bytes)} are available",
        checked,
        "; or ".join([*advice, f"give {override}"]),
    )


def lacks_mtp(nextn: int, parsed: Parsed) -> bool:
    """Whether draft-mtp has nothing to draft with: no MTP layers in the model, and no `-md` to bring some."""
    return "draft-mtp" in parsed.spec_types and nextn <= 0 and not parsed.get("spec-draft-model", "")


def _check_mtp(facts: Facts, parsed: Parsed) -> None:
    if not lacks_mtp(facts.nextn, parsed):
        return
    raise _refuse(
        "the model has no MTP block, which draft-mtp drafts with",
        [f"{facts.path}: {facts.arch}, 0 nextn layers"],
        "use a GGUF converted with its MTP (nextn) layers, or another type",
    )


def _check_ubatch(facts: Facts, parsed: Parsed) -> None:
    """A verify batch holds 1 + n_max tokens.

    On a model with recurrent layers b11549 aborts (`n_ubatch > n_keep_tail`) unless `-ub` is at least
    2 + n_max (tried for n_max 1, 2, 3 and 5). N-gram types alone run with any `-ub`.
    """
    if not _DRAFTS & set(parsed.spec_types):
        return
    n_max = parsed.get("spec-draft-n-max", _DEFAULT_N_MAX)
    ubatch = min(parsed.get("ubatch-size", _DEFAULT_UBATCH), parsed.get("batch-size", _DEFAULT_UBATCH))
    hybrid = facts.recurrent_layers > 0 and bool(_STATEFUL_DRAFTS & set(parsed.spec_types))
    need = n_max + (2 if hybrid else 1)
    if ubatch < need:
        why = "one more than a verify batch, for the recurrent state" if hybrid else "a whole verify batch"
        raise _refuse(
            f"-ub {ubatch} is too small for drafts of {n_max} tokens",
            [f"{', '.join(parsed.spec_types)} needs -ub and -b of at least {need}: {why}"],
            f"give -ub {need} or more, or --spec-draft-n-max {max(ubatch - need + n_max, 0)} or less",
        )


def _check_tables(parsed: Parsed) -> None:
    for key, flag in (("lookup-cache-static", "-lcs"), ("lookup-cache-dynamic", "-lcd")):
        table = parsed.get(key, "")
        if not table:
            continue
        if "ngram-cache" not in parsed.spec_types:
            raise _refuse(
                f"{flag} names a table that no type reads",
                [f"types: {', '.join(parsed.spec_types) or 'none'}", f"table: {table}"],
                "add ngram-cache to the types, or leave the table out",
            )
        if not Path(table).is_file():
            raise _refuse(
                "the lookup table is not there", [f"{flag} {table}"], "build it, or correct the path"
            )


def _check_draft_model(parsed: Parsed) -> None:
    draft = parsed.get("spec-draft-model", "")
    needy = [name for name in parsed.spec_types if name in _NEED_DRAFT_MODEL]
    if needy and not draft:
        raise _refuse(
            f"{needy[0]} drafts with a second model, and none is named",
            ["b11549 starts without it and drafts nothing"],
            "name it with -md",
        )
    if draft and not _DRAFTS & set(parsed.spec_types):
        raise _refuse(
            "-md names a draft model that no type uses",
            [f"types: {', '.join(parsed.spec_types) or 'none'}"],
            "add draft-simple to the types, or leave -md out",
        )
    if draft and not Path(draft).is_file():
        raise _refuse("the draft model is not there", [f"-md {draft}"], "correct the path")


def _context_warnings(facts: Facts, parsed: Parsed) -> Sequence[str]:
    context = parsed.get("ctx-size", 0)
    if context > facts.n_ctx_train > 0:
        return [
            f"-c {context} is more than the {facts.n_ctx_train} tokens that the model was trained for: "
            "text beyond them is not to be trusted"
        ]
    return []


def _refuse(cause: str, checked: Sequence[str], fix: str) -> EngineError:
    return EngineError(cause, outcome="refused", checked=checked, fix=fix)


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"
