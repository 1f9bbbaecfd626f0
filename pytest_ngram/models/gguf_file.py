"""What a model file says of itself, read before any server starts."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from gguf import GGUF_DEFAULT_ALIGNMENT, Keys

from pytest_ngram import record
from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_header import Header, read_header
from pytest_ngram.models.gguf_layers import LayerFacts, Values, layer_facts

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True, kw_only=True)
class ModelFacts(LayerFacts):
    """One model file, or all shards of one; `LayerFacts` has what is known of its layers.

    Args:
        shards: all files, in order; of a model that is not split the one file.
        name: `general.name`, or the file's stem where there is none.
        arch: `general.architecture`.
        size_bytes: of the file, all shards together.
        vocab_sha256: of the list of tokens; equal for all files with the same ids for the same texts.
        n_vocab: tokens.
        n_expert: routed experts; None on dense models.
        n_expert_used: of these, how many speak per token; None on dense models.
        n_ctx_train: context length that the file states, in tokens.
        tensor_bytes: weights, all shards together.
        chat_template: Jinja text; None where the file has none.
    """

    shards: tuple[Path, ...]
    name: str
    arch: str
    size_bytes: int
    vocab_sha256: str
    n_vocab: int
    n_expert: int | None
    n_expert_used: int | None
    n_ctx_train: int
    tensor_bytes: int
    chat_template: str | None

    @property
    def path(self) -> Path:
        """The file that a server is given: of a split model the first shard."""
        return self.shards[0]


def inspect(path: Path) -> ModelFacts:
    """Read a GGUF file's facts; of a split model give the first shard.

    Raises:
        ModelError: the file is bad in one of the ways of `read_header`, goes on after its last tensor, is a
            later shard, misses a shard, lacks a key that every language model has, states numbers that
            cannot be, or has a path that cannot be looked at.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelError("the model is no regular file", checked=[str(path)], fix="name a GGUF file")
        return _inspect(path)
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise ModelError(
            f"the model cannot be looked at: {error.strerror or error}",
            checked=[str(path)],
            fix="correct the path, or give this user the right to read it",
        ) from error
    except (ValueError, OverflowError, MemoryError, IndexError, TypeError, ZeroDivisionError) as error:
        raise ModelError(
            "the model file's header states numbers that cannot be",
            checked=[str(path), f"{type(error).__name__}: {error}"],
            fix="fetch the file again; it is damaged, or was written by a faulty converter",
        ) from error


def _inspect(path: Path) -> ModelFacts:
    header = read_header(path)
    shards = (path, *_other_shards(path, header))
    headers = [header, *(read_header(other) for other in shards[1:])]
    for shard, each in zip(shards, headers, strict=True):
        _check_end(shard, each)
    tensors = [tensor for each in headers for tensor in each.tensors]
    values = Values(path, header)
    tokens = values.tokens()
    template = header.values.get(Keys.Tokenizer.CHAT_TEMPLATE)
    return ModelFacts(
        shards=shards,
        name=str(header.values.get(Keys.General.NAME) or path.stem),
        arch=values.arch,
        size_bytes=sum(each.size_bytes for each in headers),
        vocab_sha256=hashlib.sha256(tokens.raw).hexdigest(),
        n_vocab=tokens.count,
        n_expert=values.integer(Keys.LLM.EXPERT_COUNT, 0) or None,
        n_expert_used=values.integer(Keys.LLM.EXPERT_USED_COUNT, 0) or None,
        n_ctx_train=values.integer(Keys.LLM.CONTEXT_LENGTH),
        tensor_bytes=sum(tensor.n_bytes or 0 for tensor in tensors),
        chat_template=template if isinstance(template, str) else None,
        **vars(layer_facts(values, tensors)),
    )


def _check_end(path: Path, header: Header) -> None:
    """Refuse a file that goes on after its last tensor and the padding: two files or parts put end to end.

    llama.cpp loads such a file; with pieces in a wrong order all weights after the first wrong one are noise.
    """
    sizes = [tensor.n_bytes for tensor in header.tensors]
    if not sizes or None in sizes:  # of a type that gguf does not know: where it ends is not known either
        return
    alignment = header.values.get(Keys.General.ALIGNMENT, GGUF_DEFAULT_ALIGNMENT)
    end = header.data_start + max(tensor.offset + (tensor.n_bytes or 0) for tensor in header.tensors)
    if isinstance(alignment, int) and header.size_bytes > -(-end // alignment) * alignment:
        raise ModelError(
            f"the model file goes on after its last tensor, by {header.size_bytes - end} bytes",
            checked=[str(path), f"the file has {header.size_bytes} bytes, its last tensor ends at {end}"],
            fix="fetch the file again, or put its parts together again: something was added to it",
        )


def record_model(facts: ModelFacts, sha256: str) -> record.Model:
    """Return what the record of a cell says of its model; `sha256` is that of `model_sha256`."""
    return record.Model(
        name=facts.name,
        sha256=sha256,
        arch=facts.arch,
        size_bytes=facts.size_bytes,
        vocab_sha256=facts.vocab_sha256,
        n_layer=facts.n_layer,
        n_expert=facts.n_expert,
        nextn=facts.nextn,
        recurrent_layers=facts.recurrent_layers,
    )


def _other_shards(path: Path, header: Header) -> list[Path]:
    number, count = (
        header.values.get(key) for key in (Keys.Split.LLM_KV_SPLIT_NO, Keys.Split.LLM_KV_SPLIT_COUNT)
    )
    if not isinstance(number, int) or not isinstance(count, int) or count < 2:
        return []
    match = _SHARD.search(path.name)
    prefix = path.name[: match.start()] if match else path.stem
    names = [f"{prefix}-{shard:05d}-of-{count:05d}.gguf" for shard in range(1, count + 1)]
    if number:
        raise ModelError(
            f"the model file is shard {number + 1} of {count}",
            checked=[str(path)],
            fix=f"name the first shard, {names[0]}; the others are found beside it",
        )
    missing = [name for name in names[1:] if not (path.parent / name).exists()]
    if missing:
        raise ModelError(
            f"{len(missing)} of the model's {count} shards are missing",
            checked=[str(path), *missing],
            fix="fetch them into the same folder, under these names",
        )
    return [path.parent / name for name in names[1:]]
