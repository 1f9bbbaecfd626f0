"""Configs that llama.cpp treats as one: what is measured between them is noise. Opens no files."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence

from pytest_ngram.engine.vocabulary import Vocabulary
from pytest_ngram.matrix.spec import ConfigSpec, MatrixSpec

_NGRAM_FLAGS = "spec-ngram-"
_DRAFT_FLAGS = "spec-draft-"


def equal_configs(
    matrix: MatrixSpec, configs: Iterable[str], vocabulary: Vocabulary
) -> tuple[tuple[str, ...], ...]:
    """Return groups of config ids that start llama.cpp the same way, each in the order given.

    `{types: [draft-mtp, ngram-mod], flags: --spec-draft-p-min 0.5}` and
    `{types: [ngram-mod, draft-mtp], flags: --draft-p-min 0.50}` are one: the built-in priority decides which
    type drafts, so the order of types has no effect, and a flag counts as the same in any spelling. Flags of
    a type that the config does not have are left out of the comparison. A value that is given and one that is
    llama.cpp's default anyway do count as two: defaults differ between builds.

    Args:
        matrix: the decoded matrix.
        configs: ids to compare, each once.
        vocabulary: the flags that the engine takes.

    Raises:
        EngineError: `refused`: a flag that the engine does not take.
    """
    groups: dict[Hashable, list[str]] = {}
    for name in configs:
        groups.setdefault(_canonical(matrix, matrix.configs[name], vocabulary), []).append(name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def lines(
    matrix: MatrixSpec, groups: Iterable[Sequence[str]], chosen: Iterable[tuple[str, str]]
) -> list[str]:
    """Return a sentence for each group of which one model runs two or more.

    Args:
        matrix: the decoded matrix.
        groups: what `equal_configs` found.
        chosen: model and config of what runs, or ran.
    """
    by_model: dict[str, set[str]] = {}
    for model, config in chosen:
        by_model.setdefault(model, set()).add(config)
    said: dict[str, None] = {}
    for group in groups:
        for ran in by_model.values():
            names = [name for name in group if name in ran]
            if len(names) > 1:
                said[_sentence(matrix, names)] = None
    return list(said)


def _sentence(matrix: MatrixSpec, names: Sequence[str]) -> str:
    orders = {matrix.configs[name].types for name in names}
    why = ": the order of types has no effect" if len(orders) > 1 else ""
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} are one configuration to llama.cpp{why}; what differs between them is noise"


def _canonical(matrix: MatrixSpec, config: ConfigSpec, vocabulary: Vocabulary) -> Hashable:
    table = matrix.tables[config.table] if config.table is not None else None
    values = _values(vocabulary, shlex.split(config.flags))
    effective = {key: value for key, value in values.items() if _has_effect(key, config.types)}
    return frozenset(config.types), frozenset(effective.items()), table


def _values(vocabulary: Vocabulary, argv: Sequence[str]) -> Mapping[str, Hashable]:
    """Typed values where they can be read, else the words after the flag."""
    words: dict[str, Hashable] = {key: given[1:] for key, given in vocabulary.group(argv).items()}
    return {**words, **vocabulary.parse(argv).values}


def _has_effect(key: str, types: Sequence[str]) -> bool:
    """Whether a flag means something to a config with these types; True where that is not known."""
    if key.startswith(_NGRAM_FLAGS):
        return any(key.startswith(f"spec-{name}-") for name in types)
    if key.startswith(_DRAFT_FLAGS):
        return any(name.startswith("draft-") for name in types)
    return True
