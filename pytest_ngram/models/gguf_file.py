"""What a model file says of itself, read before any server starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gguf import Keys

from pytest_ngram import record
from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_header import Array, Header, TensorInfo, read_header

_HOLDS_KV = re.compile(r"blk\.(\d+)\.(attn_k|attn_kv_a_mqa|attn_qkv)\.weight$")
_RECURRENT = re.compile(r"blk\.(\d+)\.ssm_")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_F32_BYTES = 4


@dataclass(frozen=True)
class ModelFacts:
    """One model file, or all shards of one.

    Args:
        path: the file, the first shard of a split one.
        name: `general.name`, or the file's stem where there is none.
        arch: `general.architecture`.
        size_bytes: of the file, all shards together.
        vocab_sha256: of the list of tokens; equal for all files with the same ids for the same texts.
        n_vocab: tokens.
        n_layer: trunk layers.
        nextn: MTP layers, stored after the trunk; 0 where there is none.
        n_expert: routed experts; None on dense models.
        n_expert_used: of these, how many speak per token; None on dense models.
        n_ctx_train: context length that the file states, in tokens.
        n_embd: width of the residual stream.
        n_head: query heads, the most that a layer has.
        n_head_kv: key-value heads, the most that a layer has.
        key_length: of one head.
        value_length: of one head.
        kv_heads: per layer, MTP layers last, its key-value heads; 0 where a layer holds no KV cache.
        sliding: per layer, whether it looks back no further than `sliding_window`; all where unknown.
        sliding_window: tokens; None where every layer looks back to the start.
        kv_lora_rank: with multi-head latent attention, the width that is cached in place of the heads.
        rope_dims: dimensions of a head that are turned by position.
        recurrent_layers: trunk layers with a recurrent state.
        recurrent_layer_bytes: state of one such layer and one sequence, float32.
        tensor_bytes: weights, all shards together.
        chat_template: Jinja text; None where the file has none.
    """

    path: Path
    name: str
    arch: str
    size_bytes: int
    vocab_sha256: str
    n_vocab: int
    n_layer: int
    nextn: int
    n_expert: int | None
    n_expert_used: int | None
    n_ctx_train: int
    n_embd: int
    n_head: int
    n_head_kv: int
    key_length: int
    value_length: int
    kv_heads: tuple[int, ...]
    sliding: tuple[bool, ...]
    sliding_window: int | None
    kv_lora_rank: int | None
    rope_dims: int
    recurrent_layers: int
    recurrent_layer_bytes: int
    tensor_bytes: int
    chat_template: str | None

    @property
    def attention_layers(self) -> int:
        """Trunk layers that hold a KV cache; on hybrid models few of them."""
        return sum(heads > 0 for heads in self.kv_heads[: self.n_layer])


def inspect(path: Path) -> ModelFacts:
    """Read a GGUF file's facts; of a split model give the first shard.

    Raises:
        ModelError: the file is bad in one of the ways of `read_header`, is a later shard, misses a shard, or
            lacks a key that every language model has.
    """
    header = read_header(path)
    shards = [header, *(read_header(other) for other in _other_shards(path, header))]
    values = _Values(path, header)
    n_block = values.integer(Keys.LLM.BLOCK_COUNT)
    nextn = values.integer(Keys.LLM.NEXTN_PREDICT_LAYERS, 0)
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    recurrent = _layers(tensors, _RECURRENT)
    n_head = max(values.per_layer(Keys.Attention.HEAD_COUNT, n_block))
    kv_heads = _kv_heads(values, tensors, recurrent, n_block)
    n_embd = values.integer(Keys.LLM.EMBEDDING_LENGTH)
    head_length = n_embd // max(n_head, 1)
    tokens = values.tokens()
    window = values.integer(Keys.Attention.SLIDING_WINDOW, 0)
    key_length = values.integer(Keys.Attention.KEY_LENGTH, head_length)
    template = header.values.get(Keys.Tokenizer.CHAT_TEMPLATE)
    return ModelFacts(
        path=path,
        name=str(header.values.get(Keys.General.NAME) or path.stem),
        arch=values.arch,
        size_bytes=sum(shard.size_bytes for shard in shards),
        vocab_sha256=hashlib.sha256(tokens.raw).hexdigest(),
        n_vocab=tokens.count,
        n_layer=n_block - nextn,
        nextn=nextn,
        n_expert=values.integer(Keys.LLM.EXPERT_COUNT, 0) or None,
        n_expert_used=values.integer(Keys.LLM.EXPERT_USED_COUNT, 0) or None,
        n_ctx_train=values.integer(Keys.LLM.CONTEXT_LENGTH),
        n_embd=n_embd,
        n_head=n_head,
        n_head_kv=max(kv_heads, default=0),
        key_length=key_length,
        value_length=values.integer(Keys.Attention.VALUE_LENGTH, head_length),
        kv_heads=kv_heads,
        sliding=_sliding(values, n_block, window),
        sliding_window=window or None,
        kv_lora_rank=values.integer(Keys.Attention.KV_LORA_RANK, 0) or None,
        rope_dims=values.integer(Keys.Rope.DIMENSION_COUNT, key_length),
        recurrent_layers=len(recurrent),
        recurrent_layer_bytes=_recurrent_layer_bytes(values) if recurrent else 0,
        tensor_bytes=sum(tensor.n_bytes or 0 for tensor in tensors),
        chat_template=template if isinstance(template, str) else None,
    )


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file's bytes. Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record_model(facts: ModelFacts, sha256: str) -> record.Model:
    """Return what the record of a cell says of its model; `sha256` is that of the file."""
    return record.Model(
        name=facts.name,
        sha256=sha256,
        arch=facts.arch,
        size_bytes=facts.size_bytes,
        vocab_sha256=facts.vocab_sha256,
        n_layer=facts.n_layer,
        n_expert=facts.n_expert,
        nextn=facts.nextn,
    )


class _Values:
    """Typed access to a header's values; `{arch}` in a key is filled in."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._values = header.values
        arch = header.values.get(Keys.General.ARCHITECTURE)
        if not isinstance(arch, str):
            raise self._lacks(Keys.General.ARCHITECTURE)
        self.arch = arch

    def integer(self, key: str, default: int | None = None) -> int:
        """Return one number; of an array the largest. Without a default the key has to be there."""
        numbers = self._numbers(key)
        if numbers:
            return max(numbers)
        if default is None:
            raise self._lacks(key)
        return default

    def per_layer(self, key: str, n_block: int, default: int = 0) -> list[int]:
        """Return a number for each layer; a single one holds for all, a short array ends in the default."""
        numbers = self._numbers(key) or [default]
        if len(numbers) == 1:
            return numbers * n_block
        return (numbers + [default] * n_block)[:n_block]

    def flags(self, key: str) -> list[bool]:
        """Return an array of flags; empty where the value is missing or a single number."""
        value = self._values.get(key.format(arch=self.arch))
        return [bool(item) for item in value.numbers()] if isinstance(value, Array) else []

    def tokens(self) -> Array:
        """Return the list of tokens as it lies in the file."""
        tokens = self._values.get(Keys.Tokenizer.LIST)
        if not isinstance(tokens, Array) or not tokens.count:
            raise self._lacks(Keys.Tokenizer.LIST)
        return tokens

    def _numbers(self, key: str) -> list[int]:
        value = self._values.get(key.format(arch=self.arch))
        if isinstance(value, Array):
            return [int(item) for item in value.numbers()]
        return [int(value)] if isinstance(value, int | float) else []

    def _lacks(self, key: str) -> ModelError:
        return ModelError(
            f"the model file has no {key.format(arch=getattr(self, 'arch', 'general'))}",
            checked=[str(self._path), f"it has {len(self._values)} keys"],
            fix="name the file of a language model; a projector, an adapter or a vocabulary alone is none",
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


def _layers(tensors: Sequence[TensorInfo], pattern: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for tensor in tensors if (match := pattern.match(tensor.name))}


def _kv_heads(
    values: _Values, tensors: Sequence[TensorInfo], recurrent: set[int], n_block: int
) -> tuple[int, ...]:
    """Heads per layer, 0 without a KV cache, told by tensor names: they are the same for all architectures.

    A recurrent layer may have an `attn_qkv` too, and then it makes no keys; with `attn_k` it does both.
    """
    holds = {int(match[1]) for t in tensors if (match := _HOLDS_KV.match(t.name)) and match[2] != "attn_qkv"}
    holds |= _layers(tensors, re.compile(r"blk\.(\d+)\.attn_qkv\.weight$")) - recurrent
    shared = values.integer(Keys.Attention.SHARED_KV_LAYERS, 0)  # the last ones read an earlier layer's cache
    heads = values.per_layer(Keys.Attention.HEAD_COUNT_KV, n_block)
    if not any(heads):
        heads = values.per_layer(Keys.Attention.HEAD_COUNT, n_block)
    return tuple(heads[i] if i in holds and i < n_block - shared else 0 for i in range(n_block))


def _sliding(values: _Values, n_block: int, window: int) -> tuple[bool, ...]:
    pattern = values.flags(Keys.Attention.SLIDING_WINDOW_PATTERN)
    if len(pattern) == n_block:
        return tuple(pattern)
    return (window > 0,) * n_block


def _recurrent_layer_bytes(values: _Values) -> int:
    """The convolution's last inputs and the matrices of all heads, as llama.cpp sizes them."""
    inner, state = values.integer(Keys.SSM.INNER_SIZE, 0), values.integer(Keys.SSM.STATE_SIZE, 0)
    channels = inner + 2 * values.integer(Keys.SSM.GROUP_COUNT, 0) * state
    conv = max(values.integer(Keys.SSM.CONV_KERNEL, 1) - 1, 0) * channels
    return _F32_BYTES * (conv + inner * state)
