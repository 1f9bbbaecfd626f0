"""Random weights, the embedding, the output head, and the attention layers.

Every tensor is a numpy array whose dtype is the type it has in the file: float16 or float32. Shapes are
numpy's (rows first); GGUF writes them in reverse.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.models.handbuilt.chain import EMPTY_REGISTER, N_CLASSES
from pytest_ngram.models.handbuilt.layout import (
    CLASS,
    DICE,
    N_EMBD,
    ONE,
    WRITES,
    C,
    F,
    Floats,
    P,
    Phasors,
    Y,
)
from pytest_ngram.models.handbuilt.rule import Rule

Tensors = dict[str, NDArray[np.float16] | NDArray[np.float32]]

HEAD_DIM, N_HEAD, N_HEAD_KV = 64, 2, 1
_LOGIT_GAIN = 0.8  # leaves some entropy at temperature 0.7
_NEVER = -16.0  # logit, per unit of the constant, of tokens that are no words
_DIRECT_GAIN = 4.0
_FAINT = 0.2


class Noise:
    """Normal deviates, one stream per tensor name: a tensor does not depend on which were drawn before it.

    Args:
        seed: of all streams.
        layers: of the trunk. `small`, the size of what random parts add to the stream, shrinks with their
            root: together they are small beside the phasors at any depth, yet every weight takes part, and
            a wrong kernel shows in the logits.
    """

    def __init__(self, seed: int, layers: int) -> None:
        self._seed = seed
        self.small = 0.01 * (4 / layers) ** 0.5

    def __call__(self, name: str, *shape: int, scale: float) -> Floats:
        """Return deviates of standard deviation `scale`."""
        rng = np.random.default_rng([self._seed, 2, zlib.crc32(name.encode())])
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def embedding(rule: Rule, phasors: Phasors, noise: Noise) -> Floats:
    """Return the embedding, (n_vocab, 64): what each token does, written into its slots.

    An empty register reads as `EMPTY_REGISTER`, because every token carries that phasor faintly where C and
    P will stand: alone it decides, beside a real register it only narrows the margin.
    """
    table = phasors.table
    words, direct = rule.number >= 0, rule.successor >= 0
    writes = rule.label >= 0
    embd = np.zeros((len(rule.number), N_EMBD), np.float32)
    embd[:, ONE] = 2.0
    embd[:, DICE] = noise("token_embd.dice", len(embd), 2, scale=1.0)
    spoken = np.where(words, rule.number, rule.label)  # a piece counts as a word of the class that it writes
    known = spoken >= 0
    embd[known, CLASS.start + spoken[known] % N_CLASSES] = 1.0
    embd[direct, Y] = _DIRECT_GAIN * table[rule.successor[direct]]
    embd[~direct, F] = table[rule.addend[~direct]]
    embd[~direct, P] = _FAINT * table[EMPTY_REGISTER]
    embd[writes, C] = table[rule.label[writes]]
    embd[~writes, C] = _FAINT * table[EMPTY_REGISTER]
    embd[writes, WRITES] = 1.0
    return embd


def output_head(rule: Rule, phasors: Phasors) -> Floats:
    """Return the output head, (n_vocab, 64): Y against the phasor of every word; other tokens never win."""
    head = np.zeros((len(rule.number), N_EMBD), np.float32)
    head[:, ONE] = _NEVER
    words = rule.number >= 0
    head[words, ONE] = 0.0
    head[words, Y] = _LOGIT_GAIN * phasors.table[rule.number[words]]
    return head


def output_norm() -> Floats:
    """Return the gain of the last norm, (64,): what the output head and the MTP block may see."""
    gain = np.zeros(N_EMBD, np.float32)
    for part in (C, Y, CLASS):
        gain[part] = 1.0
    gain[ONE] = 1.0

    return gain


def layer_norms(layer: int) -> Tensors:
    """Return the two norms of a layer, all ones."""
    ones = np.ones(N_EMBD, np.float32)
    return {f"blk.{layer}.attn_norm.weight": ones, f"blk.{layer}.post_attention_norm.weight": ones.copy()}


def attention(layer: int, noise: Noise) -> Tensors:
    """Return a random attention layer: two gated query heads on one key-value head of 64."""
    prefix = f"blk.{layer}.attn_"
    scales = {
        "q": (2 * N_HEAD * HEAD_DIM, N_EMBD, N_EMBD**-0.5),  # per head: the query, then its gate
        "k": (N_HEAD_KV * HEAD_DIM, N_EMBD, N_EMBD**-0.5),
        "v": (N_HEAD_KV * HEAD_DIM, N_EMBD, N_EMBD**-0.5),
        "output": (N_EMBD, N_HEAD * HEAD_DIM, noise.small / 2),
    }
    tensors: Tensors = {}
    for part, (rows, columns, scale) in scales.items():
        name = f"{prefix}{part}.weight"
        tensors[name] = noise(name, rows, columns, scale=scale).astype(np.float16)
    tensors[f"{prefix}q_norm.weight"] = np.ones(HEAD_DIM, np.float32)
    tensors[f"{prefix}k_norm.weight"] = np.ones(HEAD_DIM, np.float32)
    return tensors
