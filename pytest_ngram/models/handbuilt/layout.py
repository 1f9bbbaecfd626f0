"""What stands where in the residual stream, and how a number is written into it.

A number u of 0 to 255 is written as a *phasor*: seven points on the unit circle, turned by u at seven
frequencies. Adding numbers is turning, and turning is a complex product, wave by wave:

    (cos a + i·sin a) · (cos b + i·sin b) = cos(a + b) + i·sin(a + b)

so a model that can multiply two slots can add modulo 256. Reading a number back is a dot product with all
256 phasors: 7 for the right one, and at most `sidelobe`·7 for any other. The frequencies are drawn so that
this second value is small (about 0.45 of the first), which is the margin of every argmax.

Worked example with one frequency of 64: u = 1 is a quarter turn (0, 1), u = 2 a half turn (−1, 0); their
product (0, 1)·(−1, 0) is (0·−1 − 1·0, 0·0 + 1·−1) = (0, −1), three quarters: the number 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.models.handbuilt.chain import N_CLASSES, N_WORDS, Ints

Floats = NDArray[np.float32]

N_WAVES = 7
PHASOR = 2 * N_WAVES
N_EMBD = 64
# The four phasor slots: the register C, the token's addend F, the register before this token P, the answer Y.
C, F, P, Y = (slice(k * PHASOR, (k + 1) * PHASOR) for k in range(4))
ONE = 4 * PHASOR  # a positive constant
WRITES = ONE + 1  # 1 for tokens that write the register
CLASS = slice(ONE + 2, ONE + 2 + N_CLASSES)  # one-hot class of the token, for the router
DICE = slice(CLASS.stop, N_EMBD)  # random per token, so that the router varies within a class
_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Phasors:
    """The phasors of all numbers: `table` is (256, 14), cosine and sine in turn; `sidelobe` as above."""

    table: Floats
    sidelobe: float


@lru_cache(maxsize=8)
def phasors(seed: int) -> Phasors:
    """Draw the frequencies with the smallest sidelobe among 4000 sets of seven."""
    rng = np.random.default_rng([seed, 1])
    frequencies = 1 + rng.permuted(np.tile(np.arange(N_WORDS // 2 - 1), (_DRAWS, 1)), axis=1)[:, :N_WAVES]
    angles = 2 * np.pi * np.outer(np.arange(N_WORDS), np.arange(N_WORDS)) / N_WORDS
    cosines = np.cos(angles)  # [frequency, distance]
    lobes = cosines[frequencies][:, :, 1:].sum(axis=1).max(axis=1) / N_WAVES
    best = int(lobes.argmin())
    turned = angles[:, frequencies[best]]
    table = np.stack([np.cos(turned), np.sin(turned)], axis=2).reshape(N_WORDS, PHASOR)
    return Phasors(table=table.astype(np.float32), sidelobe=float(lobes[best]))


def cosine_and_sine(slot: slice, wave: int) -> tuple[int, int]:
    """Return where a wave of a phasor slot keeps its cosine and its sine."""
    return slot.start + 2 * wave, slot.start + 2 * wave + 1


def dims(slot: slice) -> Ints:
    """Return the slot's places in the stream."""
    return np.arange(slot.start, slot.stop)
