"""The map that the hand-built model computes: which word follows which, over 256 numbered words.

Word `u` of class `c` (0 en, 1 ru, 2 code, 3 phrase) has a number with `u % 4 == c`. The model keeps one
number C, the *register*. After the word `t`

    a writing word says  (addend[t] + C) mod 256  and then puts label[t] into C;
    a direct word says   successor[t]             and leaves C alone.

Every addend is a multiple of 4, so what is said has the class of C. Within en, ru and code a word's label
is its own number; from then on C is the word before the last one, and text stays in its class for ever.

Worked example, en: C = 12, the last word is 8, addend[8] = 40. The next word is 40 + 12 = 52, C becomes 8.
With addend[52] = 252 the word after it is (252 + 8) mod 256 = 4, and C becomes 52.

Within a class the map (C, t) → (t, addend[t] + C) can be undone, so it consists of cycles. For en and ru the
addends are drawn at random until the cycles that a chat prompt can lead into are long; for code they form
a linear recurrence (3·t + 28 + C), whose cycles have at most 96 words.

A phrase is 16 words: fifteen direct ones, then a writing one. Phrase p starts at 3 + 64·p, which is also the
label of its last word, and that word's addend is a multiple of 64: what follows is the start of a phrase.
The addends are drawn until all 16 pairs of phrases lie on one cycle, of 256 words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.models.handbuilt.words import CLASSES, PHRASE_LENGTH, WORDS_PER_CLASS

N_CLASSES = len(CLASSES)
N_WORDS = N_CLASSES * WORDS_PER_CLASS
N_PHRASES = WORDS_PER_CLASS // PHRASE_LENGTH
# What a token that is no word adds to C: the first word after a chat template is C + 20.
TRANSPARENT_ADDEND = 5 * N_CLASSES
# The register of a prompt that has written nothing yet.
EMPTY_REGISTER = 0
MIN_CYCLE = 1024
_AFTER_TEMPLATE = TRANSPARENT_ADDEND // N_CLASSES
_PHRASE_CLASS = CLASSES.index("phrase")
_PHRASE_STEP = N_WORDS // N_PHRASES

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """The map over word numbers 0 to 255; every array has the shape (256,).

    Args:
        addend: multiple of 4, meaningful for writing words.
        label: what a writing word puts into the register.
        successor: what a direct word says; -1 marks a writing word.
        word_index: place of the word in its class's list of words.
    """

    addend: Ints
    label: Ints
    successor: Ints
    word_index: Ints


def build_chain(seed: int) -> Chain:
    """Draw the map. The same seed gives the same map."""
    rng = np.random.default_rng([seed, 0])
    numbers = np.arange(N_WORDS)
    chain = Chain(
        addend=np.zeros(N_WORDS, np.int64),
        label=numbers.copy(),
        successor=np.full(N_WORDS, -1),
        word_index=numbers // N_CLASSES,
    )
    for name in ("en", "ru"):
        steps = _draw_steps(rng, WORDS_PER_CLASS, offset=_AFTER_TEMPLATE, min_cycle=MIN_CYCLE)
        chain.addend[CLASSES.index(name) :: N_CLASSES] = N_CLASSES * steps
    steps = (3 * np.arange(WORDS_PER_CLASS) + 7) % WORDS_PER_CLASS
    chain.addend[CLASSES.index("code") :: N_CLASSES] = N_CLASSES * steps
    _lay_phrases(chain, rng)
    return chain


def _lay_phrases(chain: Chain, rng: np.random.Generator) -> None:
    inner = (i for i in range(WORDS_PER_CLASS) if i % PHRASE_LENGTH)
    jumps = _draw_steps(rng, N_PHRASES, offset=0, min_cycle=N_PHRASES**2)
    for phrase in range(N_PHRASES):
        start = _PHRASE_CLASS + _PHRASE_STEP * phrase
        words = [start, *(_PHRASE_CLASS + N_CLASSES * next(inner) for _ in range(PHRASE_LENGTH - 1))]
        chain.successor[words[:-1]] = words[1:]
        chain.label[words[-1]] = start
        chain.addend[words[-1]] = _PHRASE_STEP * jumps[phrase]
        chain.word_index[words] = phrase * PHRASE_LENGTH + np.arange(PHRASE_LENGTH)


def _draw_steps(rng: np.random.Generator, size: int, *, offset: int, min_cycle: int) -> Ints:
    """Draw steps until every start that a chat prompt leads to has a long cycle.

    A start is (C, C + offset) for any C, in the class's own unit: templates end in tokens that are no words.
    """
    registers = np.arange(size)
    starts = registers * size + (registers + offset) % size
    while True:
        steps = rng.integers(0, size, size)
        if _shortest_cycle(steps, starts.tolist()) >= min_cycle:
            return steps


def _shortest_cycle(steps: Ints, starts: list[int]) -> int:
    """Length of the shortest cycle of (C, t) → (t, steps[t] + C) through one of the starts C · size + t."""
    size = len(steps)
    register, word = np.divmod(np.arange(size**2), size)
    following = (word * size + (steps[word] + register) % size).tolist()
    lengths, seen = [], bytearray(size**2)
    for start in starts:
        length, at = 0, start
        while not seen[at]:
            seen[at], at, length = 1, following[at], length + 1
        if length:  # else an earlier start lies on the same cycle
            lengths.append(length)
    return min(lengths)
