"""Prompts taken out of a table's own corpus, so that what leakage would have bought can be seen."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_ngram.corpus import Message
from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.names import check_no_config_word, config_words
from pytest_ngram.matrix.prompts import Message as Turn
from pytest_ngram.matrix.prompts import PromptSet, PromptSpec
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure import sources
from pytest_ngram.record import ECHO

# Long enough that a table knows it from nothing but this message, short enough for a small context.
MIN_CHARS, MAX_CHARS = 160, 2000
_ASKER = "user"


def read_echo(
    matrix: MatrixSpec,
    profile: str,
    models: Iterable[str],
    base: Path,
    *,
    others: Mapping[str, PromptSet],
    file: str,
) -> tuple[PromptSet | None, dict[str, list[str]]]:
    """Return the echo prompts of a profile as a prompt set, and their ids by table.

    Ids are numbers (`echo-1`): nothing of a message stands in them.

    Args:
        models: those that will be measured.
        base: the folder that relative paths start from.
        others: the prompt sets of the matrix; what is in them is not taken.
        file: the matrix file's name, for messages.

    Raises:
        MatrixError: a corpus has not that many prompts, or an id is taken.
        CorpusError: a corpus cannot be read.
    """
    wanted = matrix.profiles[profile].echo
    known = {message.content for each in others.values() for p in each.prompts for message in p.messages}
    ids: dict[str, list[str]] = {}
    prompts: list[PromptSpec] = []
    for table in dict.fromkeys(name for model in models for name in matrix.echo_tables(model, profile)):
        path = f"profiles.{profile}.echo.{table}"
        messages = sources.read_corpora_of(matrix.tables[table], base).messages
        usable = _usable(messages, known, matrix.warmup.strip())
        texts = _drawn(usable, wanted[table], f"{matrix.seed}/{table}")
        if len(texts) < wanted[table]:
            raise MatrixError(
                f"{file}: {path}: the corpus has {len(texts)} messages that can be an echo prompt",
                checked=[f"different texts of {MIN_CHARS} to {MAX_CHARS} characters, in no prompt set"],
                fix=f"write {len(texts)}" if texts else f"leave `{table}` out of `echo`",
            )
        ids[table] = [f"{ECHO}-{len(prompts) + i}" for i in range(1, len(texts) + 1)]
        known.update(texts)
        prompts += [
            PromptSpec(id=name, kind=ECHO, messages=(Turn(role="user", content=text),))
            for name, text in zip(ids[table], texts, strict=True)
        ]
    _check_ids(matrix, prompts, others, f"profiles.{profile}.echo", file)
    return (PromptSet(set=ECHO, system="", prompts=tuple(prompts)) if prompts else None), ids


def _usable(messages: Sequence[Message], known: set[str], warmup: str) -> list[Message]:
    """Messages of a fitting length, each text once, none of which is sent anyway."""
    by_text = {
        message.content: message
        for message in messages
        if MIN_CHARS <= len(message.content) <= MAX_CHARS
        and message.content not in known
        and warmup not in message.content
    }
    return list(by_text.values())


def _drawn(usable: Sequence[Message], count: int, seed: str) -> list[str]:
    """So many texts, drawn by the seed: what people asked first, since a prompt is a question."""
    chance = random.Random(seed)
    asked = [message.content for message in usable if message.role == _ASKER]
    others = [message.content for message in usable if message.role != _ASKER]
    return [
        *chance.sample(asked, min(count, len(asked))),
        *chance.sample(others, min(max(0, count - len(asked)), len(others))),
    ]


def _check_ids(
    matrix: MatrixSpec, prompts: Sequence[PromptSpec], others: Mapping[str, PromptSet], path: str, file: str
) -> None:
    words = config_words(matrix.configs)
    owner = {prompt.id: name for name, each in others.items() for prompt in each.prompts}
    for prompt in prompts:
        check_no_config_word(file, path, "prompt id", prompt.id, words)
        if prompt.id in owner:
            raise MatrixError(
                f"{file}: {path}: prompt id {prompt.id!r} is taken",
                checked=[f"it stands in the prompt set {owner[prompt.id]!r}"],
                fix="give that prompt another id",
            )
