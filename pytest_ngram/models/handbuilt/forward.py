"""The qwen35moe forward pass in numpy, for chains of token ids of equal length.

It follows llama.cpp's graph of the architecture (`src/models/qwen35moe.cpp`, read in build b11434), with
float32 sums where llama.cpp multiplies float16, and it can leave out the shared experts, whose
contribution is small by construction. Arrays have the shape (chains, tokens, …).
"""

from __future__ import annotations

import numpy as np

from pytest_ngram.models.handbuilt.chain import Ints
from pytest_ngram.models.handbuilt.experts import N_EXPERT, N_EXPERT_USED
from pytest_ngram.models.handbuilt.layout import Floats
from pytest_ngram.models.handbuilt.recurrent import CONV, KEY, N_VALUE_HEADS, STATE
from pytest_ngram.models.handbuilt.trunk import is_attention
from pytest_ngram.models.handbuilt.weights import HEAD_DIM, N_HEAD, Tensors

NORM_EPSILON = 1e-6
ROPE_DIMS = 16
ROPE_BASE = 1e7
# OpenBLAS spreads products larger than this over threads, which spin when the host is busy: with one of two
# cores taken, a pass over 4096 tokens took 2.6 s instead of 0.16 s.
_ONE_THREAD = 2**18


class Forward:
    """A model's tensors, widened to float32, and the layers that they make.

    Args:
        tensors: by GGUF name.
        n_layer: trunk layers; the MTP block is layer `n_layer`.
        shared_experts: whether to compute them; wide ones take nearly all of the time.
    """

    def __init__(self, tensors: Tensors, n_layer: int, *, shared_experts: bool = True) -> None:
        wanted = {name: array for name, array in tensors.items() if shared_experts or "_shexp" not in name}
        self._tensors = {name: array.astype(np.float32) for name, array in wanted.items()}
        self._n_layer = n_layer
        self._shared_experts = shared_experts

    def hidden(self, ids: Ints) -> Floats:
        """Return the trunk's last hidden state, normed: (chains, tokens, 64)."""
        x = self._tensors["token_embd.weight"][ids]
        for layer in range(self._n_layer):
            normed = self._norm(x, f"blk.{layer}.attn_norm")
            x = x + (self._attention if is_attention(layer) else self._recurrent)(layer, normed)
            x = x + self.mixture(layer, self._norm(x, f"blk.{layer}.post_attention_norm"))
        return self._norm(x, "output_norm")

    def logits(self, hidden: Floats) -> Floats:
        """Return (…, n_vocab) logits of normed hidden states (…, 64)."""
        return matmul(hidden, self._tensors["output.weight"].T)

    def mtp_before_experts(self, ids: Ints, hidden: Floats) -> tuple[Floats, Floats]:
        """Return the MTP block's stream before its experts, and the same normed, as they read it.

        Args:
            ids: (chains, tokens) the tokens just said.
            hidden: (chains, tokens, 64) the hidden state of the token before each.
        """
        prefix = f"blk.{self._n_layer}"
        said = self._norm(self._tensors["token_embd.weight"][ids], f"{prefix}.nextn.enorm")
        before = self._norm(hidden, f"{prefix}.nextn.hnorm")
        joint = self._tensors[f"{prefix}.nextn.eh_proj.weight"]
        x = matmul(np.concatenate([said, before], axis=-1), joint.T)
        x = x + self._attention(self._n_layer, self._norm(x, f"{prefix}.attn_norm"))
        return x, self._norm(x, f"{prefix}.post_attention_norm")

    def mtp_head_norm(self, x: Floats) -> Floats:
        """Return the MTP block's hidden state, as the output head reads it."""
        return self._norm(x, f"blk.{self._n_layer}.nextn.shared_head_norm")

    def mixture(self, layer: int, x: Floats) -> Floats:
        """Return the MoE's answer to a normed stream."""
        answer = self.routed(layer, x, self._tensors[f"blk.{layer}.ffn_down_exps.weight"])
        return answer + self._shared(layer, x) if self._shared_experts else answer

    def routed(self, layer: int, x: Floats, down: Floats) -> Floats:
        """Return the routed experts' answer, with `down` (8, 64, 64) in place of the layer's own."""
        prefix = f"blk.{layer}.ffn_"
        flat = x.reshape(-1, x.shape[-1])
        scores = matmul(flat, self._tensors[f"{prefix}gate_inp.weight"].T)
        chosen = np.argsort(-scores, axis=1, kind="stable")[:, :N_EXPERT_USED]
        weight = np.exp(np.take_along_axis(scores, chosen, axis=1) - scores.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        answer = np.zeros_like(flat)
        gate, up = (self._tensors[f"{prefix}{part}_exps.weight"] for part in ("gate", "up"))
        for expert in range(N_EXPERT):
            rows, place = np.nonzero(chosen == expert)
            inner = _silu(matmul(flat[rows], gate[expert].T)) * matmul(flat[rows], up[expert].T)
            answer[rows] += weight[rows, place, None] * matmul(inner, down[expert].T)
        return answer.reshape(x.shape)

    def _shared(self, layer: int, x: Floats) -> Floats:
        gate, up, down = (
            self._tensors[f"blk.{layer}.ffn_{part}_shexp.weight"] for part in ("gate", "up", "down")
        )
        inner = _silu(matmul(x, gate.T)) * matmul(x, up.T)
        openness = _sigmoid(x @ self._tensors[f"blk.{layer}.ffn_gate_inp_shexp.weight"])
        return matmul(inner, down.T) * openness[..., None]

    def _norm(self, x: Floats, name: str) -> Floats:
        return _rms_norm(x) * self._tensors[f"{name}.weight"]

    def _attention(self, layer: int, x: Floats) -> Floats:
        chains, tokens, _ = x.shape
        w = {part: self._tensors[f"blk.{layer}.attn_{part}.weight"] for part in ("q", "k", "v", "output")}
        joint = matmul(x, w["q"].T).reshape(chains, tokens, N_HEAD, 2, HEAD_DIM)
        query, gate = joint[..., 0, :], joint[..., 1, :]
        key = _rope(self._norm(matmul(x, w["k"].T), f"blk.{layer}.attn_k_norm"))
        query = _rope(self._norm(query, f"blk.{layer}.attn_q_norm").swapaxes(1, 2))
        scores = matmul(query, key[:, None].swapaxes(-1, -2)) / np.float32(HEAD_DIM**0.5)
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        mixed = matmul(share, matmul(x, w["v"].T)[:, None]).swapaxes(1, 2) * _sigmoid(gate)
        return matmul(mixed.reshape(chains, tokens, -1), w["output"].T)

    def _recurrent(self, layer: int, x: Floats) -> Floats:
        t = {part: self._tensors[f"blk.{layer}.{part}"] for part in _RECURRENT_PARTS}
        mixed = _silu(_causal_conv(matmul(x, t["attn_qkv.weight"].T), t["ssm_conv1d.weight"]))
        query, key = (_unit(mixed[..., k * KEY : (k + 1) * KEY]) for k in range(2))
        value = mixed[..., 2 * KEY :].reshape(*x.shape[:2], N_VALUE_HEADS, STATE)
        beta = _sigmoid(matmul(x, t["ssm_beta.weight"].T))
        alpha = matmul(x, t["ssm_alpha.weight"].T) + t["ssm_dt.bias"]
        decay = np.exp(t["ssm_a"] * np.logaddexp(np.float32(0), alpha))
        out = _rms_norm(_delta_rule(query, key, value, beta, decay)) * t["ssm_norm.weight"]
        gated = out.reshape(*x.shape[:2], -1) * _silu(matmul(x, t["attn_gate.weight"].T))
        return matmul(gated, t["ssm_out.weight"].T)


_RECURRENT_PARTS = (
    *("attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a"),
    *("ssm_beta.weight", "ssm_alpha.weight", "ssm_norm.weight", "ssm_out.weight"),
)


def matmul(x: Floats, weight: Floats) -> Floats:
    """Return x (…, rows, k) @ weight (…, k, n), in blocks of rows that BLAS keeps on one thread."""
    *lead, rows, k = x.shape
    n = weight.shape[-1]
    block = max(1, _ONE_THREAD // (k * n))
    padding = [(0, 0)] * len(lead) + [(0, -rows % block), (0, 0)]
    blocks = np.pad(x, padding).reshape(*lead, -1, block, k)
    product: Floats = (blocks @ weight[..., None, :, :]).reshape(*lead, -1, n)
    return product[..., :rows, :]


def _delta_rule(query: Floats, key: Floats, value: Floats, beta: Floats, decay: Floats) -> Floats:
    """Run the gated delta rule over the tokens, with one key head: (chains, tokens, value heads, STATE)."""
    chains, tokens = value.shape[:2]
    state = np.zeros((chains, N_VALUE_HEADS, STATE, STATE), np.float32)  # [.., value, key]
    out = np.empty_like(value)
    for t in range(tokens):
        state *= decay[:, t, :, None, None]
        k, q = key[:, t, None, :, None], query[:, t, None, :, None]
        delta = beta[:, t, :, None] * (value[:, t] - (state @ k)[..., 0])
        state += delta[..., None] * k.swapaxes(-1, -2)
        out[:, t] = (state @ q)[..., 0]
    return out / np.float32(STATE**0.5)


def _causal_conv(x: Floats, kernel: Floats) -> Floats:
    """Per channel: kernel (channels, CONV), its last column on the token itself."""
    padded = np.pad(x, ((0, 0), (CONV - 1, 0), (0, 0)))
    taps = [padded[:, tap : tap + x.shape[1]] * kernel[:, tap] for tap in range(CONV)]
    total: Floats = np.add.reduce(taps)
    return total


def _rope(x: Floats) -> Floats:
    """Turn pairs (i, i + 8) of the first 16 of each head's dimensions; x is (…, tokens, HEAD_DIM)."""
    half = ROPE_DIMS // 2
    turn = np.outer(np.arange(x.shape[-2]), ROPE_BASE ** (-np.arange(half) / half))
    cosine, sine = np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)
    a, b, rest = x[..., :half], x[..., half:ROPE_DIMS], x[..., ROPE_DIMS:]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine, rest], axis=-1)


def _rms_norm(x: Floats) -> Floats:
    normed: Floats = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
    return normed


def _unit(x: Floats) -> Floats:
    unit: Floats = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
    return unit


def _sigmoid(x: Floats) -> Floats:
    sigmoid: Floats = np.float32(0.5) * (np.tanh(x * np.float32(0.5)) + np.float32(1.0))
    return sigmoid


def _silu(x: Floats) -> Floats:
    return x * _sigmoid(x)
