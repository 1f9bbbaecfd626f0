"""How much memory a server must have for itself, computed from the model file's facts alone.

Every figure is a lower bound: compute buffers, the tokenizer and the server's own needs come on top.
"""

from __future__ import annotations

import gguf

from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_file import ModelFacts

_CELL_STEP = 256  # llama.cpp rounds the context up to a multiple of this many cells
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


def kv_bytes(
    facts: ModelFacts, n_ctx: int, type_k: str = "f16", type_v: str = "f16", *, mtp: bool = False
) -> int:
    """Return the bytes of the KV cache of one sequence.

    Args:
        facts: of the model.
        n_ctx: context of the server, in tokens.
        type_k: as for `--cache-type-k`.
        type_v: as for `--cache-type-v`.
        mtp: count the cache of the MTP layers, which belongs to a context of its own, instead of the trunk's.

    With a sliding window a layer counts no more than that window, though a server keeps some cells more.

    Raises:
        ModelError: a type is none that llama.cpp keeps a cache in, or a row of it does not fill its blocks.
    """
    layers = range(facts.n_layer, facts.n_layer + facts.nextn) if mtp else range(facts.n_layer)
    return sum(_layer_bytes(facts, layer, n_ctx, type_k, type_v) for layer in layers)


def recurrent_bytes(facts: ModelFacts) -> int:
    """Return the bytes of the recurrent state of one sequence, without the copies that drafting keeps."""
    return facts.recurrent_layers * facts.recurrent_layer_bytes


def anonymous_need_bytes(
    facts: ModelFacts, n_ctx: int, type_k: str = "f16", type_v: str = "f16", *, mmap: bool, mtp: bool = False
) -> int:
    """Return a lower bound of the anonymous memory of a server on the CPU with one slot.

    It is the trunk's KV cache and recurrent state, with `mtp` the MTP layers' cache too, and the weights
    unless they are mapped from the file. Raises `ModelError` as `kv_bytes` does.
    """
    need = kv_bytes(facts, n_ctx, type_k, type_v) + recurrent_bytes(facts)
    if mtp:
        need += kv_bytes(facts, n_ctx, type_k, type_v, mtp=True)
    return need if mmap else need + facts.tensor_bytes


def _layer_bytes(facts: ModelFacts, layer: int, n_ctx: int, type_k: str, type_v: str) -> int:
    heads = facts.kv_heads[layer]
    cells = -(-n_ctx // _CELL_STEP) * _CELL_STEP
    if facts.sliding_window is not None and facts.sliding[layer]:
        cells = min(cells, facts.sliding_window)
    if facts.kv_lora_rank is not None:
        return cells * _row_bytes(type_k, facts.kv_lora_rank + facts.rope_dims) if heads else 0
    key, value = heads * facts.key_length, heads * facts.value_length
    return cells * (_row_bytes(type_k, key) + _row_bytes(type_v, value))


def _row_bytes(kind: str, n_items: int) -> int:
    if kind not in KV_TYPES:
        raise ModelError(
            f"{kind!r} is no type of a KV cache",
            checked=["cache types"],
            fix=f"take one of {', '.join(KV_TYPES)}",
        )
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind.upper()]]
    if n_items % block:
        raise ModelError(
            f"a KV cache of type {kind} does not fit this model",
            checked=[f"a row has {n_items} items, a block {block}"],
            fix="take f16",
        )
    return int(n_items // block * block_bytes)
