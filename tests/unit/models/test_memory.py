"""The memory arithmetic, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.memory import anonymous_need_bytes, kv_bytes, recurrent_bytes

SMOLLM2 = ModelFacts(
    shards=(Path("smollm2.gguf"),),
    name="SmolLM2-135M",
    arch="llama",
    size_bytes=98_362_432,
    vocab_sha256="0" * 64,
    n_vocab=49_152,
    n_layer=30,
    nextn=0,
    n_expert=None,
    n_expert_used=None,
    n_ctx_train=8192,
    n_embd=576,
    n_head=9,
    n_head_kv=3,
    key_length=64,
    value_length=64,
    kv_heads=(3,) * 30,
    sliding=(False,) * 30,
    sliding_window=None,
    kv_lora_rank=None,
    rope_dims=64,
    recurrent_layers=0,
    recurrent_layer_bytes=0,
    tensor_bytes=96_576_768,
    chat_template=None,
)
HYBRID = replace(
    SMOLLM2, n_layer=4, nextn=1, kv_heads=(0, 0, 0, 2, 2), sliding=(False,) * 5, recurrent_layers=3,
    recurrent_layer_bytes=1000,
)  # fmt: skip
MIB = 2**20


def test_kv_cache_of_a_dense_model():
    """30 layers x 1024 cells x 2 x 192 items x 2 bytes = 22.5 MiB, which llama.cpp b11549 prints for it."""
    assert kv_bytes(SMOLLM2, 1024) == 22.5 * MIB


def test_context_is_rounded_up_as_the_server_does():
    """`-c 1000` gives a server of 1024 cells."""
    assert kv_bytes(SMOLLM2, 1000) == kv_bytes(SMOLLM2, 1024) < kv_bytes(SMOLLM2, 1025)


def test_quantised_cache():
    """q8_0 keeps 32 items in 34 bytes, q4_0 in 18: 192 items are 204 and 108 bytes."""
    assert kv_bytes(SMOLLM2, 1024, "q8_0", "q4_0") == 30 * 1024 * (204 + 108)


def test_hybrid_counts_only_the_layers_that_hold_a_cache():
    """One trunk layer of two heads of 64, keys and values, f16: 512 bytes a cell; the MTP layer apart."""
    assert kv_bytes(HYBRID, 256) == 256 * 512
    assert kv_bytes(HYBRID, 256, mtp=True) == 256 * 512
    assert recurrent_bytes(HYBRID) == 3000


def test_sliding_window_bounds_only_the_layers_that_slide():
    """A layer that slides keeps its window, the others the whole context: (128 + 1024) x 768 bytes."""
    facts = replace(SMOLLM2, n_layer=2, kv_heads=(3, 3), sliding=(True, False), sliding_window=128)
    assert kv_bytes(facts, 1024) == (128 + 1024) * 768


def test_latent_attention_caches_the_latent_alone():
    """512 + 64 items a cell and layer, once, in the type of the keys."""
    facts = replace(SMOLLM2, kv_lora_rank=512)
    assert kv_bytes(facts, 1024) == 30 * 1024 * 576 * 2


@pytest.mark.parametrize(("mmap", "weights"), [(True, 0), (False, 96_576_768)])
def test_anonymous_need_counts_weights_unless_mapped(mmap, weights):
    """KV cache, recurrent state, with MTP its cache, and the weights when they are copied."""
    assert anonymous_need_bytes(HYBRID, 256, mmap=mmap) == 256 * 512 + 3000 + weights
    assert anonymous_need_bytes(HYBRID, 256, mmap=mmap, mtp=True) == 2 * 256 * 512 + 3000 + weights


@pytest.mark.parametrize(("kind", "cause"), [("q9_9", "'q9_9'"), ("q4_0", "does not fit")])
def test_a_cache_type_that_cannot_be_is_refused(kind, cause):
    """An unknown type, and one whose blocks a row does not fill."""
    with pytest.raises(ModelError, match=cause):
        kv_bytes(replace(SMOLLM2, key_length=40, kv_heads=(1,) * 30), 256, kind)
