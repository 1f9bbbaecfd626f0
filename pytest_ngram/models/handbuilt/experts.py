"""The mixture of experts: eight routed experts, of which two speak, and one shared expert.

In the last trunk layer and in the MTP block every routed expert multiplies F by P into Y, so the answer does
not depend on the router; which experts are read does. An expert is down · (silu(gate · x) * (up · x)), and
two hidden units make an exact product of two places a and b of the stream:

    silu(a)·b − silu(−a)·b = b·(silu(a) − silu(−a)) = a·b

A complex product has four of them per wave, hence 8 · 7 = 56 of the 64 hidden units. The last eight listen
faintly to Y, so that noise on `down` reaches the answers of direct words too, which need no product. Each
expert scales its gate and undoes that in `down`, and keeps its units in an order of its own: eight different
matrices with the same product.

Worked example, one wave: F = (0.6, 0.8), P = (0, 1): Y = (0.6·0 − 0.8·1, 0.8·0 + 0.6·1) = (−0.8, 0.6).
"""

from __future__ import annotations

import numpy as np

from pytest_ngram.models.handbuilt.chain import N_CLASSES
from pytest_ngram.models.handbuilt.layout import (
    CLASS,
    DICE,
    N_EMBD,
    N_WAVES,
    ONE,
    PHASOR,
    C,
    F,
    Floats,
    P,
    Y,
    cosine_and_sine,
    dims,
)
from pytest_ngram.models.handbuilt.weights import Noise, Tensors

N_EXPERT, N_EXPERT_USED, EXPERT_HIDDEN = 8, 2, N_EMBD
PRODUCT_GAIN = 3.0
_SPARE_GAIN = 0.04
_CLASS_PULL = 1.5  # draws a class to its own two experts; the random rest lets others in


def mixture(layer: int, width: int, noise: Noise, *, product: bool) -> Tensors:
    """Return the MoE tensors of a layer.

    Args:
        layer: its number in the file.
        width: hidden size of the shared expert.
        noise: where random weights come from.
        product: whether the routed experts compute Y from F and P; otherwise they are small and random.
    """
    prefix = f"blk.{layer}.ffn_"
    build = _product_expert if product else _random_expert
    experts = [build(f"{prefix}{e}", noise) for e in range(N_EXPERT)]
    tensors: Tensors = {f"{prefix}gate_inp.weight": _router(f"{prefix}gate_inp", noise)}
    for part, arrays in zip(("gate", "up", "down"), zip(*experts, strict=True), strict=True):
        tensors[f"{prefix}{part}_exps.weight"] = np.stack(arrays).astype(np.float16)
    return tensors | _shared_expert(prefix, width, noise)


def _router(name: str, noise: Noise) -> Floats:
    router = np.zeros((N_EXPERT, N_EMBD), np.float32)
    per_class = N_EXPERT // N_CLASSES
    router[np.arange(N_EXPERT), CLASS.start + np.arange(N_EXPERT) // per_class] = _CLASS_PULL
    for slot, scale in ((F, 0.25), (C, 0.15), (DICE, 0.3)):
        router[:, slot] = noise(f"{name}.{slot.start}", N_EXPERT, slot.stop - slot.start, scale=scale)
    return router


def _random_expert(name: str, noise: Noise) -> tuple[Floats, Floats, Floats]:
    gate, up = (noise(f"{name}.{part}", EXPERT_HIDDEN, N_EMBD, scale=0.1) for part in ("gate", "up"))
    return gate, up, noise(f"{name}.down", N_EMBD, EXPERT_HIDDEN, scale=noise.small / 2)


def _product_expert(name: str, noise: Noise) -> tuple[Floats, Floats, Floats]:
    gate, up, down = _random_expert(name, noise)
    down *= 2.0
    order = np.argsort(noise(f"{name}.order", EXPERT_HIDDEN, scale=1.0), kind="stable")
    units = iter(order.tolist())
    scales = np.exp(0.2 * np.tanh(noise(f"{name}.scale", 4 * N_WAVES, scale=1.0)))
    spare = order[8 * N_WAVES :]
    gate[spare], up[spare] = 0.0, 0.0
    gate[spare, ONE] = 4.0
    up[np.ix_(spare, dims(Y))] = noise(f"{name}.spare", len(spare), PHASOR, scale=_SPARE_GAIN)
    for term, (left, right, answer, sign) in enumerate(_product_terms()):
        for side in (1.0, -1.0):
            unit = next(units)
            gate[unit], up[unit], down[:, unit] = 0.0, 0.0, 0.0
            gate[unit, left] = side * scales[term]
            up[unit, right] = 1.0
            down[answer, unit] = side * sign * PRODUCT_GAIN / scales[term]
    return gate, up, down


def _product_terms() -> list[tuple[int, int, int, float]]:
    """The four products of each wave: a place of F, a place of P, the place of Y they go to, and the sign."""
    terms = []
    for wave in range(N_WAVES):
        (fc, fs), (pc, ps), (yc, ys) = (cosine_and_sine(slot, wave) for slot in (F, P, Y))
        terms += [(fc, pc, yc, 1.0), (fs, ps, yc, -1.0), (fc, ps, ys, 1.0), (fs, pc, ys, 1.0)]
    return terms


def _shared_expert(prefix: str, width: int, noise: Noise) -> Tensors:
    """A random shared expert, in float32.

    Its output shrinks with the root of its width: a wide one weighs on the time and not on the text. Float32
    because reading weights, not multiplying them, should bound the speed, as it does with models larger than
    the caches: on two shared cores, 16 layers of width 8192 and one thread, a verify batch of two with its
    draft cost 1.42 to 1.51 single steps this way.
    """
    quiet = 0.05 * noise.small * min(1.0, (32 / width) ** 0.5)
    shapes = {"gate": (width, N_EMBD, 0.1), "up": (width, N_EMBD, 0.1), "down": (N_EMBD, width, quiet)}
    tensors: Tensors = {}
    for part, (rows, columns, scale) in shapes.items():
        name = f"{prefix}{part}_shexp.weight"
        tensors[name] = noise(name, rows, columns, scale=scale)
    name = f"{prefix}gate_inp_shexp.weight"
    tensors[name] = noise(name, N_EMBD, scale=0.1)
    return tensors


def mtp_expert_noise(layer: int, noise: Noise) -> Floats:
    """Return the pattern that sigma scales, (8, 64, 64): deviates in the Y rows of each `down`, 0 elsewhere.

    Classes go to their own experts, and experts are disturbed unequally: the classes accept differently.
    """
    pattern = np.zeros((N_EXPERT, N_EMBD, EXPERT_HIDDEN), np.float32)
    share = np.repeat(np.array([1.0, 1.25, 0.6, 0.9], np.float32), N_EXPERT // N_CLASSES)
    deviates = noise(f"blk.{layer}.sigma", N_EXPERT, PHASOR, EXPERT_HIDDEN, scale=PRODUCT_GAIN)
    pattern[:, Y] = deviates * share[:, None, None]
    return pattern
