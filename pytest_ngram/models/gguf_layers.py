"""What the layers of a model are, told by the header's values and the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gguf import Keys

from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_header import Array, Header, TensorInfo

_HOLDS_KV = re.compile(r"blk\.(\d+)\.(attn_k|attn_kv_a_mqa|attn_qkv)\.weight$")
_RECURRENT = re.compile(r"blk\.(\d+)\.ssm_")
_F32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class LayerFacts:
    """The trunk, the MTP layers after it, and what each keeps while it generates.

    Args:
        n_layer: trunk layers.
        nextn: MTP layers, stored after the trunk; 0 where there is none.
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
    """

    n_layer: int
    nextn: int
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

    @property
    def attention_layers(self) -> int:
        """Trunk layers that hold a KV cache; on hybrid models few of them."""
        return sum(heads > 0 for heads in self.kv_heads[: self.n_layer])


class Values:
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


def layer_facts(values: Values, tensors: Sequence[TensorInfo]) -> LayerFacts:
    """Return the facts of all layers.

    Raises:
        ModelError: a file without a key that every model has.
        ValueError: more layers than tensors, or more MTP layers than layers.
    """
    n_block, n_embd = values.integer(Keys.LLM.BLOCK_COUNT), values.integer(Keys.LLM.EMBEDDING_LENGTH)
    nextn = values.integer(Keys.LLM.NEXTN_PREDICT_LAYERS, 0)
    if not 0 <= nextn < n_block <= len(tensors):
        raise ValueError(f"{n_block} layers, {nextn} of them MTP layers, of {len(tensors)} tensors in all")
    n_head = max(values.per_layer(Keys.Attention.HEAD_COUNT, n_block), default=0)
    head_length = n_embd // max(n_head, 1)
    key_length = values.integer(Keys.Attention.KEY_LENGTH, head_length)
    recurrent = _layers(tensors, _RECURRENT)
    kv_heads = _kv_heads(values, tensors, recurrent, n_block)
    window = values.integer(Keys.Attention.SLIDING_WINDOW, 0)
    return LayerFacts(
        n_layer=n_block - nextn,
        nextn=nextn,
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
    )


def _layers(tensors: Sequence[TensorInfo], pattern: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for tensor in tensors if (match := pattern.match(tensor.name))}


def _kv_heads(
    values: Values, tensors: Sequence[TensorInfo], recurrent: set[int], n_block: int
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


def _sliding(values: Values, n_block: int, window: int) -> tuple[bool, ...]:
    pattern = values.flags(Keys.Attention.SLIDING_WINDOW_PATTERN)
    if len(pattern) == n_block:
        return tuple(pattern)
    return (window > 0,) * n_block


def _recurrent_layer_bytes(values: Values) -> int:
    """The convolution's last inputs and the matrices of all heads, as llama.cpp sizes them."""
    inner, state = values.integer(Keys.SSM.INNER_SIZE, 0), values.integer(Keys.SSM.STATE_SIZE, 0)
    channels = inner + 2 * values.integer(Keys.SSM.GROUP_COUNT, 0) * state
    conv = max(values.integer(Keys.SSM.CONV_KERNEL, 1) - 1, 0) * channels
    return _F32_BYTES * (conv + inner * state)
