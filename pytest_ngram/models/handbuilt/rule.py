"""The rule of the hand-built model: what llama.cpp must generate greedily after any prompt.

Every token of the vocabulary falls into one of four kinds. Words are *writing* or *direct* (`chain`). Pieces
of words and stray bytes are writing too, so that a prompt in any Latin or Cyrillic text sets the register:
a Latin piece writes an `en` number, a piece that begins with a non-ASCII byte a `ru` number. All others
(digits, signs outside `code`, white space, role names, control tokens) are *transparent*: they say C + 20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pytest_ngram.errors import ModelError
from pytest_ngram.models.handbuilt.chain import (
    EMPTY_REGISTER,
    N_CLASSES,
    N_WORDS,
    TRANSPARENT_ADDEND,
    Chain,
    Ints,
    build_chain,
)
from pytest_ngram.models.handbuilt.vocabulary import ROLES, Vocabulary, vocabulary
from pytest_ngram.models.handbuilt.words import CLASSES, WORDS_PER_CLASS, class_words


@dataclass(frozen=True, eq=False)
class Rule:
    """The map of `chain`, laid over token ids. Arrays have the shape (n_vocab,) unless stated.

    Args:
        vocabulary: the tokens.
        addend: added to the register to say the next word.
        label: what the token puts into the register; -1 for tokens that leave it alone.
        successor: number of the word that a direct word says; -1 for all other tokens.
        number: the word's number 0 to 255; -1 for tokens that are no words.
        token_of_number: (256,) token id of each word.
    """

    vocabulary: Vocabulary
    addend: Ints
    label: Ints
    successor: Ints
    number: Ints
    token_of_number: Ints

    @property
    def word_classes(self) -> Mapping[str, tuple[str, ...]]:
        """The 64 words of each class `en`, `ru`, `code`, `phrase`, with their leading spaces."""
        return class_words()

    def class_of(self, token_id: int) -> str | None:
        """Return the class of a word's token, None for a token that is no word."""
        number = int(self.number[token_id])
        return None if number < 0 else CLASSES[number % N_CLASSES]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, as `/completion` does: special tokens left out."""
        return self.vocabulary.text(ids)

    def register_after(self, prompt_ids: Sequence[int]) -> int:
        """Return C after the ids; an empty prompt leaves it at `EMPTY_REGISTER`."""
        written = [int(label) for label in self.label[np.asarray(prompt_ids, np.int64)] if label >= 0]
        return written[-1] if written else EMPTY_REGISTER

    def continuation(self, prompt_ids: Sequence[int], n: int) -> list[int]:
        """Return the n ids that greedy decoding generates after the prompt.

        Raises:
            ModelError: no prompt ids, or an id that is not in the vocabulary.
        """
        self._check(prompt_ids)
        register, token = self.register_after(prompt_ids[:-1]), int(prompt_ids[-1])
        generated: list[int] = []
        for _ in range(n):
            number = int(self.successor[token])
            if number < 0:
                number = (int(self.addend[token]) + register) % N_WORDS
            if self.label[token] >= 0:
                register = int(self.label[token])
            token = int(self.token_of_number[number])
            generated.append(token)
        return generated

    def _check(self, prompt_ids: Sequence[int]) -> None:
        unknown = [i for i in prompt_ids if not 0 <= i < len(self.vocabulary)]
        if unknown or not prompt_ids:
            raise ModelError(
                "the rule continues a prompt of at least one id of the hand-built model's vocabulary",
                checked=[f"{len(prompt_ids)} ids, outside the vocabulary: {unknown[:5]}"],
                fix=f"tokenize the prompt with this model; its ids are 0 to {len(self.vocabulary) - 1}",
            )


@lru_cache(maxsize=8)
def rule_of_seed(seed: int) -> Rule:
    """Lay the map of the seed over the vocabulary."""
    chain, vocab = build_chain(seed), vocabulary()
    tokens = _tokens_of_numbers(chain, vocab)
    number = np.full(len(vocab), -1)
    number[tokens] = np.arange(N_WORDS)
    addend, label = np.full(len(vocab), TRANSPARENT_ADDEND), np.full(len(vocab), -1)
    successor = np.full(len(vocab), -1)
    for token in range(len(vocab)):
        if number[token] < 0 and (piece := _piece_class(vocab, token)) is not None:
            addend[token] = N_CLASSES * (token * 11 % WORDS_PER_CLASS)
            label[token] = piece + N_CLASSES * (token * 7 % WORDS_PER_CLASS)
    addend[tokens], successor[tokens] = chain.addend, chain.successor
    label[tokens] = np.where(chain.successor < 0, chain.label, -1)
    return Rule(vocab, addend, label, successor, number, tokens)


def _tokens_of_numbers(chain: Chain, vocab: Vocabulary) -> Ints:
    words = class_words()
    spoken = [words[CLASSES[u % N_CLASSES]][chain.word_index[u]] for u in range(N_WORDS)]
    return np.array([vocab.word_id(word) for word in spoken])


def _piece_class(vocab: Vocabulary, token: int) -> int | None:
    """Class that a token outside the 256 words writes; None for a transparent token."""
    if token >= vocab.n_plain or vocab.tokens[token] in ROLES:
        return None
    first = vocab.token_bytes(token).strip(b" ")[:1]
    if not first:
        return None
    if first[0] >= 0x80:
        return CLASSES.index("ru")
    return CLASSES.index("en") if first.isalpha() else None
