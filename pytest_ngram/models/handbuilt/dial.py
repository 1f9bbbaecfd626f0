"""Finds the noise that gives the MTP block the wanted acceptance, by simulating its drafts in numpy.

The simulation is what a server does with `draft-mtp` and n_max 1 at temperature 0: chat prompts of each
class, the rule's continuation, the trunk's hidden states, the MTP block over its own attention, and a
walk over the steps. Only the shared experts are left out. The noise enters linearly before the last norm,

    stream = before + clean + sigma · noisy

so the three parts are computed once and every further sigma costs one product with the output head.

Worked example of the walk, drafts right (1) or wrong (0) by position: 1 0 0 1 1. Step 1 drafts at 0 and is
accepted, so step 2 drafts at 2: wrong; step 3 at 3: right; the text ends. Accepted 2 of 3, not 3 of 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_ngram.errors import ModelError
from pytest_ngram.models.handbuilt.chain import Ints
from pytest_ngram.models.handbuilt.forward import Forward, matmul
from pytest_ngram.models.handbuilt.layout import Floats
from pytest_ngram.models.handbuilt.rule import Rule
from pytest_ngram.models.handbuilt.spec import MAX_SIGMA
from pytest_ngram.models.handbuilt.trunk import Weights
from pytest_ngram.models.handbuilt.words import CLASSES, PHRASE_LENGTH

CHAINS_PER_CLASS = 4
PROMPT_WORDS = 8
GENERATED = 256  # tokens of each chain: all phrases, and more than a period of code
# Sigma is taken from this grid, so that the last bits of a sum do not decide the bytes of the file.
SIGMA_STEP = 1 / 512
TOLERANCE = 0.02  # a found acceptance this far from the target is as good as the model allows
_LONGEST_PROMPT = 64


@dataclass(frozen=True)
class Dialled:
    """The noise found, and what the simulation expects of it.

    Args:
        sigma: the noise.
        acceptance: accepted ÷ drafted at n_max 1, by word class.
    """

    sigma: float
    acceptance: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean acceptance over the classes, each with equal weight."""
        return sum(self.acceptance.values()) / len(self.acceptance)


class Simulation:
    """Drafts of one model for any sigma.

    Args:
        weights: the model without its noise.

    Raises:
        ModelError: the trunk does not follow its rule, which no seed has shown yet.
    """

    def __init__(self, weights: Weights) -> None:
        self._rule = weights.rule
        self._ids, self._starts = _chains(weights.rule)
        self._model = Forward(weights.tensors, weights.n_layer, shared_experts=False)
        self._head = weights.tensors["output.weight"][weights.rule.token_of_number].astype(np.float32).T
        hidden = self._model.hidden(self._ids)
        self._check_trunk(hidden)
        self._lay_out_drafts(weights, hidden)

    def acceptance(self, sigma: float) -> Dialled:
        """Return the acceptance of each class at n_max 1."""
        stream = self._clean + np.float32(sigma) * self._noisy
        right = self._words(self._model.mtp_head_norm(stream))[:, :-1] == self._ids[:, 1:]
        rates = [_walk(row[start:]) for row, start in zip(right, self._starts, strict=True)]
        by_class = np.reshape(rates, (len(CLASSES), CHAINS_PER_CLASS)).mean(axis=1)
        return Dialled(sigma, dict(zip(CLASSES, by_class.tolist(), strict=True)))

    def _lay_out_drafts(self, weights: Weights, hidden: Floats) -> None:
        layer = weights.n_layer
        before = np.concatenate([np.zeros_like(hidden[:, :1]), hidden[:, :-1]], axis=1)
        stream, normed = self._model.mtp_before_experts(self._ids, before)
        self._clean = stream + self._model.mixture(layer, normed)
        self._noisy = self._model.routed(layer, normed, weights.sigma_pattern)

    def _words(self, hidden: Floats) -> Ints:
        words: Ints = self._rule.token_of_number[matmul(hidden, self._head).argmax(axis=-1)]
        return words

    def _check_trunk(self, hidden: Floats) -> None:
        said = self._words(hidden)[:, :-1] == self._ids[:, 1:]
        generated = np.arange(said.shape[1]) >= self._starts[:, None] - 1
        wrong = int((generated & ~said).sum())
        if wrong:
            raise ModelError(
                "the hand-built trunk does not follow its rule",
                checked=[f"{wrong} of {int(generated.sum())} simulated tokens differ"],
                fix="take another seed, and report this one",
            )


def dial(weights: Weights, target: float) -> Dialled:
    """Find the sigma whose simulated mean acceptance is nearest to the target, by bisection.

    Raises:
        ModelError: the target cannot be reached within `TOLERANCE`; the message gives what can.
    """
    simulation = Simulation(weights)
    low, high = 0, round(MAX_SIGMA / SIGMA_STEP)
    ends = [simulation.acceptance(k * SIGMA_STEP) for k in (low, high)]
    while high - low > 1:
        middle = simulation.acceptance((low + high) // 2 * SIGMA_STEP)
        if middle.mean >= target:
            low, ends[0] = (low + high) // 2, middle
        else:
            high, ends[1] = (low + high) // 2, middle
    best = min(ends, key=lambda found: abs(found.mean - target))
    if abs(best.mean - target) > TOLERANCE:
        raise ModelError(
            f"an acceptance of {target} is out of this model's reach",
            checked=[f"the nearest is {best.mean:.3f}, at sigma {best.sigma:.3f}"],
            fix="take a target nearer to that, or another seed",
        )
    return best


def _chains(rule: Rule) -> tuple[Ints, Ints]:
    """Return (chains, tokens) ids, class by class, and where in each row the continuation starts."""
    rng = np.random.default_rng(0)
    rows, starts = [], []
    for name in CLASSES:
        for _ in range(CHAINS_PER_CLASS):
            prompt = _chat_prompt(rule, name, rng)
            rows.append(prompt + rule.continuation(prompt, GENERATED + _LONGEST_PROMPT - len(prompt)))
            starts.append(len(prompt))
    return np.array(rows), np.array(starts)


def _chat_prompt(rule: Rule, name: str, rng: np.random.Generator) -> list[int]:
    """A chat of one user message in the class's words; a whole phrase for `phrase`."""
    vocab, words = rule.vocabulary, rule.word_classes[name]
    if name == "phrase":
        first = PHRASE_LENGTH * int(rng.integers(len(words) // PHRASE_LENGTH))
        message = words[first : first + PHRASE_LENGTH]
    else:
        message = tuple(rng.choice(words, PROMPT_WORDS).tolist())
    token = {text: index for index, text in enumerate(vocab.tokens)}
    line_end = ord("\n")
    turn = [token["<|im_start|>"], token["user"], line_end, *map(vocab.word_id, message)]
    return [*turn, token["<|im_end|>"], line_end, token["<|im_start|>"], token["assistant"], line_end]


def _walk(right: NDArray[np.bool_]) -> float:
    """Accepted ÷ drafted over the steps of one continuation; see the worked example above."""
    position = drafted = accepted = 0
    while position < len(right):
        hit = bool(right[position])
        drafted, accepted = drafted + 1, accepted + hit
        position += 1 + hit
    return accepted / drafted
