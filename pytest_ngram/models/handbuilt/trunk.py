"""The whole model: the trunk, and the MTP block that drafts for it.

The MTP block sees the embedding e of the token just said and the trunk's last hidden state h of the token
before it, and has to guess what follows the former. By the rule that is addend + register before, and the
register before e is what h carries in C: the block copies F from e and P from C of h, and its experts
multiply as the trunk's do, only with noise on their way out. A direct word's answer comes with e, in Y.

Worked example: "8, 52" has been said with the numbers of `chain`; h (of 8) has C = 8, e (of 52) has F = 252,
so the draft is (252 + 8) mod 256 = 4, the trunk's own next word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_ngram.models.handbuilt.experts import mixture, mtp_expert_noise
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
    dims,
    phasors,
)
from pytest_ngram.models.handbuilt.recurrent import recurrent
from pytest_ngram.models.handbuilt.rule import Rule, rule_of_seed
from pytest_ngram.models.handbuilt.spec import HandBuiltSpec
from pytest_ngram.models.handbuilt.weights import (
    Noise,
    Tensors,
    attention,
    embedding,
    layer_norms,
    output_head,
    output_norm,
)


@dataclass(frozen=True, eq=False)
class Weights:
    """A model without its MTP noise.

    Args:
        tensors: every tensor of the file by its GGUF name.
        n_layer: trunk layers; the MTP block is layer `n_layer`.
        sigma_pattern: what sigma times is added to the MTP block's `ffn_down_exps`.
        rule: what the trunk computes.
        phasors: how it writes numbers.
    """

    tensors: Tensors
    n_layer: int
    sigma_pattern: Floats
    rule: Rule
    phasors: Phasors

    def with_sigma(self, sigma: float) -> Tensors:
        """Return all tensors, the MTP block's experts disturbed by sigma."""
        name = f"blk.{self.n_layer}.ffn_down_exps.weight"
        noisy = self.tensors[name].astype(np.float32) + np.float32(sigma) * self.sigma_pattern
        return self.tensors | {name: noisy.astype(np.float16)}


def build_weights(spec: HandBuiltSpec) -> Weights:
    """Construct every tensor of the spec's model."""
    rule, waves, noise = rule_of_seed(spec.seed), phasors(spec.seed), Noise(spec.seed, spec.layers)
    tensors: Tensors = {
        "token_embd.weight": embedding(rule, waves, noise).astype(np.float16),
        "output.weight": output_head(rule, waves).astype(np.float16),
        "output_norm.weight": output_norm(),
    }
    for layer in range(spec.layers):
        tensors |= layer_norms(layer)
        tensors |= attention(layer, noise) if is_attention(layer) else recurrent(layer, noise)
        tensors |= mixture(layer, spec.width, noise, product=layer == spec.layers - 1)
    tensors |= _mtp_block(spec, noise)
    return Weights(tensors, spec.layers, mtp_expert_noise(spec.layers, noise), rule, waves)


def is_attention(layer: int) -> bool:
    """Tell whether a trunk layer is one of attention; the other three of four are recurrent."""
    return layer % 4 == 3


def _mtp_block(spec: HandBuiltSpec, noise: Noise) -> Tensors:
    layer = spec.layers
    tensors = layer_norms(layer) | attention(layer, noise)
    tensors |= mixture(layer, spec.width, noise, product=True)
    prefix = f"blk.{layer}.nextn."
    ones = np.ones(N_EMBD, np.float32)
    return tensors | {
        f"{prefix}eh_proj.weight": _joint_projection(prefix, noise).astype(np.float16),
        f"{prefix}enorm.weight": ones,
        f"{prefix}hnorm.weight": ones.copy(),
        f"{prefix}shared_head_norm.weight": output_norm(),
    }


def _joint_projection(prefix: str, noise: Noise) -> Floats:
    """(64, 128): takes the normed e, then the normed h, and lays out what the experts need."""
    projection = noise(f"{prefix}eh_proj.weight", N_EMBD, 2 * N_EMBD, scale=0.003)
    e, h = 0, N_EMBD
    wires = [(F, e, F, 0.6), (P, h, C, 0.8), (Y, e, Y, 1.4)]
    # C for the drafts after this one: the new label, or the old register where a direct word writes none.
    wires += [(C, e, C, 1.2), (C, h, C, 0.1)]
    flags = slice(ONE, ONE + 1), slice(WRITES, WRITES + 1), CLASS, DICE
    wires += [(flag, e, flag, 0.6) for flag in flags]
    for into, source, out_of, gain in wires:
        projection[dims(into), source + dims(out_of)] += gain
    return projection
