"""The recurrent layers (gated delta net). The first two carry the register; the others are random.

One head keeps a matrix S, which for a constant unit key e₀ is a single vector S = S·e₀:

    S ← decay · S + beta · (v − decay · S)        out = RMS-norm(S) · silu(gate)

- *hold*, layer 0: decay 1 and beta 0 keep S; decay 0 and beta 1 overwrite it with v = C of this token. Both
  are driven by the `WRITES` flag, far into saturation: beta = sigmoid(−40·s) without the flag and
  sigmoid(+40·s) with it, s being the scale of the norm before: 0.7 for direct words, more for all others.
- *shift*, layer 1: decay 0 and beta 1 always, and the causal convolution looks one token back, so that
  v = C of the token before, held register included. It goes into P.

The convolution ends in silu, which is not linear; v is therefore carried twice, as silu(a) and silu(−a),
and read as their difference: silu(a) − silu(−a) = a·σ(a) + a·σ(−a) = a, exactly.

Worked example, one number in place of a phasor: C of the tokens 5 (writes), · (does not), 7 (writes).
hold gives S = 5, 5, 7; C in the stream is 5, 5, 7 after it; shift gives P = –, 5, 5: the register before.
"""

from __future__ import annotations

import numpy as np

from pytest_ngram.models.handbuilt.layout import N_EMBD, ONE, PHASOR, WRITES, C, Floats, P, dims
from pytest_ngram.models.handbuilt.weights import Noise, Tensors

STATE = 64  # size of a head's key and value
N_KEY_HEADS, N_VALUE_HEADS = 1, 2
CONV = 4  # tokens that the convolution sees, this one last
KEY, VALUE = STATE * N_KEY_HEADS, STATE * N_VALUE_HEADS
_FIRST_VALUE = slice(2 * KEY, 2 * KEY + STATE)  # rows of head 0's value in the joint projection
_PLUS = np.arange(PHASOR)
_MINUS = PHASOR + np.arange(PHASOR)
_VALUE_GAIN = 4.0
_OUT_GAIN = 0.16  # gives the phasor back at about the size that an embedding has


def recurrent(layer: int, noise: Noise) -> Tensors:
    """Return a recurrent layer: hold in layer 0, shift in layer 1, random in all others."""
    parts = _random_parts(layer, noise)
    if layer == 0:
        _carry(parts, C)
        _hold(parts)
    elif layer == 1:
        _carry(parts, P)
        _shift(parts)
    half = ("attn_qkv.weight", "attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight", "ssm_out.weight")
    return {
        f"blk.{layer}.{part}": array.astype(np.float16) if part in half else array
        for part, array in parts.items()
    }


def _random_parts(layer: int, noise: Noise) -> dict[str, Floats]:
    def draw(part: str, *shape: int, scale: float) -> Floats:
        return noise(f"blk.{layer}.{part}", *shape, scale=scale)

    qkv = draw("attn_qkv.weight", 2 * KEY + VALUE, N_EMBD, scale=0.1)
    qkv[: 2 * KEY] *= 0.2
    qkv[[0, KEY], ONE] = 2.0  # query and key stay close to e₀
    conv = np.zeros((2 * KEY + VALUE, CONV), np.float32)
    conv[:, -1] = 1.0
    return {
        "attn_qkv.weight": qkv,
        "attn_gate.weight": draw("attn_gate.weight", VALUE, N_EMBD, scale=0.1),
        "ssm_conv1d.weight": conv,
        "ssm_dt.bias": np.array([0.0, 0.5], np.float32),
        "ssm_a": np.array([-1.0, -0.5], np.float32),
        "ssm_beta.weight": draw("ssm_beta.weight", N_VALUE_HEADS, N_EMBD, scale=0.05),
        "ssm_alpha.weight": draw("ssm_alpha.weight", N_VALUE_HEADS, N_EMBD, scale=0.05),
        "ssm_norm.weight": np.ones(STATE, np.float32),
        "ssm_out.weight": draw("ssm_out.weight", N_EMBD, VALUE, scale=0.3 * noise.small),
    }


def _carry(parts: dict[str, Floats], into: slice) -> None:
    """Let head 0 take C as its value and give it out into a slot."""
    value = parts["attn_qkv.weight"][_FIRST_VALUE]
    value[:] = 0.0
    value[_PLUS, dims(C)] = _VALUE_GAIN
    value[_MINUS, dims(C)] = -_VALUE_GAIN
    gate, out = parts["attn_gate.weight"], parts["ssm_out.weight"]
    gate[:STATE] = 0.0
    gate[:STATE, ONE] = 1.0
    out[:, :STATE] = 0.0
    out[dims(into), _PLUS] = _OUT_GAIN
    out[dims(into), _MINUS] = -_OUT_GAIN
    parts["ssm_a"][0] = -20.0  # decay = exp(−20 · softplus(alpha + dt))
    for name in ("ssm_alpha.weight", "ssm_beta.weight"):
        parts[name][0] = 0.0


def _hold(parts: dict[str, Floats]) -> None:
    parts["ssm_dt.bias"][0] = -25.0
    parts["ssm_alpha.weight"][0, WRITES] = 60.0
    parts["ssm_beta.weight"][0, ONE] = -20.0
    parts["ssm_beta.weight"][0, WRITES] = 80.0


def _shift(parts: dict[str, Floats]) -> None:
    parts["ssm_dt.bias"][0] = 20.0
    parts["ssm_beta.weight"][0, ONE] = 20.0
    conv = parts["ssm_conv1d.weight"][_FIRST_VALUE]
    conv[:] = 0.0
    conv[:, -2] = 1.0
