"""Goldens: stored ids of reference prompts, and the fingerprint that says for which engine they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pytest_ngram.judge import identity
from pytest_ngram.judge.identity import Seen
from pytest_ngram.judge.types import Answer, Verdict, failed, passed

SCHEMA = 1
GATE = "golden"
PROMPT_GATE = "prompt"
NONE_STORED = "none stored"
ANOTHER_FINGERPRINT = "another fingerprint"
NOT_STORED = "not stored"


class Fingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that decides the greedy text of a model that has near-ties.

    `model` is the beginning of the file's SHA-256. A model whose text follows a rule has the same text on
    every engine, so `model` names the rule, and the rest is left out. `isa` is what the engine's CPU code was
    compiled for, not what the processor has: on two processors the same code gives the same text. `flags` are
    other flags that the matrix gives the model or the baseline, such as `-ngl 99`.
    """

    model: str
    family: str | None = None
    isa: tuple[str, ...] = ()
    threads: int | None = None
    threads_batch: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    cache_k: str | None = None
    cache_v: str | None = None
    flash_attn: str | None = None
    flags: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One golden: the ids, and their text for those who review it."""

    text: str
    ids: tuple[int, ...]


class Golden(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One golden file. `made_with` names the build; it is told, not compared."""

    schema: int = SCHEMA
    made_with: str
    fingerprint: Fingerprint
    n_predict: int
    texts: dict[str, Text]


class PromptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ids that a model's own template and tokenizer make of the prompts, whatever the engine."""

    schema: int = SCHEMA
    made_with: str
    model: str
    prompts: dict[str, tuple[int, ...]]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden is compared with. `update` is the command that stores one.

    `strict`: it is a failure as well that all goldens of the model are of other engines' families.
    """

    answer: Answer
    fingerprint: Fingerprint
    n_predict: int
    update: str
    strict: bool = False


def judge(asked: Asked, stored: Sequence[Golden], seen: Seen) -> Verdict:
    """Return whether the ids equal the golden of this fingerprint.

    Args:
        asked: the answer of the running build.
        stored: all goldens of this model's name, whatever their fingerprints.
        seen: what is known of the first difference to `chosen(...)`; its texts are those compared.
    """
    own = [golden for golden in stored if golden.fingerprint == asked.fingerprint]
    if own:
        return _own(asked, own[0], seen)
    others = [golden for golden in stored if golden.fingerprint.model == asked.fingerprint.model]
    if not others:
        return _none_stored(asked, [f"goldens of this name are of {_models(stored)}"] if stored else [])
    return _other(asked, others, seen)


def chosen(asked: Asked, stored: Sequence[Golden]) -> tuple[int, ...] | None:
    """Return the ids of the golden that an answer is held against; None where there are none."""
    same_model = [golden for golden in stored if golden.fingerprint.model == asked.fingerprint.model]
    for golden in sorted(same_model, key=_distance(asked)):
        if asked.answer.prompt in golden.texts:
            return golden.texts[asked.answer.prompt].ids
    return None


def differing(stored: Fingerprint, found: Fingerprint) -> list[str]:
    """Return one line for each field of two fingerprints that differs."""
    fields = (field.name for field in msgspec.structs.fields(Fingerprint))
    pairs = ((name, getattr(stored, name), getattr(found, name)) for name in fields)
    return [f"{name}: stored {_shown(was)}, here {_shown(now)}" for name, was, now in pairs if was != now]


def judge_prompt(stored: PromptFile | None, answer: Answer, model: str, update: str) -> Verdict:
    """Return whether template and tokenizer make the stored ids of a prompt.

    Args:
        stored: of this model's name; None where there is none.
        answer: with the ids of the running build.
        model: the fingerprint's name of the model file.
        update: the command that stores them.
    """
    if stored is None or answer.prompt not in stored.prompts:
        return failed(PROMPT_GATE, NONE_STORED, [f"to store the ids of this prompt: {update}"])
    if stored.model != model:
        return failed(
            PROMPT_GATE,
            "another model file",
            [f"stored for {stored.model}, here {model}", f"if that is meant: {update}"],
        )
    ids = stored.prompts[answer.prompt]
    if identity.first_difference(ids, answer.prompt_ids) is None:
        return passed(PROMPT_GATE)
    lines = identity.describe(Seen(expected=ids, got=answer.prompt_ids), ("stored", "here"))
    return failed(PROMPT_GATE, identity.PROMPT_CHANGED, [*lines, f"stored with {stored.made_with}"])


def refused(gate: str, why: Sequence[str]) -> Verdict:
    """Return the failure of a golden that was to be stored and is not, since something contradicts it."""
    return failed(gate, NOT_STORED, [*why, "so nothing was written, and what was stored before stays"])


def _own(asked: Asked, golden: Golden, seen: Seen) -> Verdict:
    if asked.answer.prompt not in golden.texts:
        return _none_stored(asked, ["goldens of this fingerprint have no such prompt"])
    if golden.n_predict != asked.n_predict:
        return failed(
            GATE,
            "another length",
            [
                f"stored with n_predict {golden.n_predict}, asked for {asked.n_predict}",
                f"to store: {asked.update}",
            ],
        )
    verdict = identity.judge(seen, policy="strict", gate=GATE, names=("stored", "here"))
    return msgspec.structs.replace(verdict, lines=(*verdict.lines, f"stored with {golden.made_with}"))


def _other(asked: Asked, others: Sequence[Golden], seen: Seen) -> Verdict:
    """A golden of the same family was this engine's own until something changed: it cannot retire itself.

    One of another family is of an engine that was never to give the same ids, so nothing is wrong by that.
    """
    nearest = min(others, key=_distance(asked))
    lines = [f"the nearest golden is that of {nearest.made_with}:"]
    lines += differing(nearest.fingerprint, asked.fingerprint)
    lines += identity.describe(seen, ("stored", "here"))
    lines.append(f"to store one for this engine: {asked.update}")
    own_family = nearest.fingerprint.family == asked.fingerprint.family
    if own_family or asked.strict:
        return failed(GATE, ANOTHER_FINGERPRINT, lines)
    return Verdict(GATE, "cannot compare", ANOTHER_FINGERPRINT, tuple(lines))


def _distance(asked: Asked) -> Callable[[Golden], tuple[bool, int]]:
    """Goldens of this engine's family are the nearest, then those of which fewer fields differ."""

    def of(golden: Golden) -> tuple[bool, int]:
        other_family = golden.fingerprint.family != asked.fingerprint.family
        return other_family, len(differing(golden.fingerprint, asked.fingerprint))

    return of


def _none_stored(asked: Asked, lines: Sequence[str]) -> Verdict:
    return failed(GATE, NONE_STORED, [*lines, f"to store one, and to review it: {asked.update}"])


def _models(stored: Sequence[Golden]) -> str:
    return ", ".join(sorted({golden.fingerprint.model for golden in stored}))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "unknown"
    return "unknown" if value is None else str(value)
