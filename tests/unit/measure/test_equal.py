"""Configs that llama.cpp treats as one are noticed, and only those."""

from __future__ import annotations

import pytest

from pytest_ngram.engine.vocabulary import EmbeddedFlags
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.equal import equal_configs, lines

MATRIX = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf}
configs:
  none: {}
  one: ONE
  two: TWO
tables:
  x: {corpus: {path: c.jsonl}}
  y: {corpus: {path: c.jsonl}}
  z: {corpus: {path: c.jsonl}, min_total: 9}
prompt_sets:
  chat: {path: chat.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 8}
"""


def matrix_of(one: str, two: str) -> MatrixSpec:
    return decode_matrix(MATRIX.replace("ONE", one).replace("TWO", two), "m.yaml")


def groups(one: str, two: str) -> tuple[tuple[str, ...], ...]:
    matrix = matrix_of(one, two)
    return equal_configs(matrix, matrix.configs, EmbeddedFlags())


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("{types: [draft-mtp, ngram-map-k4v]}", "{types: [ngram-map-k4v, draft-mtp]}"),
        (
            "{types: [draft-mtp], flags: --spec-draft-p-min 0.5}",
            "{types: [draft-mtp], flags: --draft-p-min 0.50}",
        ),
        ("{types: [ngram-mod], flags: -fa on -c 64}", "{types: [ngram-mod], flags: --ctx-size 64 -fa 1}"),
        ("{types: [ngram-mod]}", "{types: [ngram-mod], flags: --spec-draft-n-max 2}"),
        ("{types: [ngram-mod]}", "{types: [ngram-mod], flags: --spec-ngram-simple-size-n 3}"),
        ("{types: [ngram-map-k]}", "{types: [ngram-map-k], flags: --spec-ngram-map-k4v-size-n 3}"),
        ("{types: [ngram-cache], table: x}", "{types: [ngram-cache], table: y}"),
        ("{types: [ngram-simple]}", "{types: [ngram-simple], rounds: 2}"),
    ],
)
def test_what_has_no_effect_does_not_make_two_configs(one: str, two: str) -> None:
    """Order of types, spelling, flags of other types, a table by another name, more requests."""
    assert groups(one, two) == (("one", "two"),)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("{types: [draft-mtp]}", "{types: [draft-mtp, ngram-mod]}"),
        (
            "{types: [draft-mtp], flags: --spec-draft-n-max 1}",
            "{types: [draft-mtp], flags: --spec-draft-n-max 2}",
        ),
        ("{types: [ngram-cache]}", "{types: [ngram-cache], table: x}"),
        ("{types: [ngram-cache], table: x}", "{types: [ngram-cache], table: z}"),
        ("{types: [ngram-mod]}", "{types: [ngram-mod], flags: --spec-ngram-mod-n-match 6}"),
        ("{types: [ngram-mod]}", "{types: [ngram-mod], flags: -t 2}"),
    ],
)
def test_what_has_an_effect_makes_two_configs(one: str, two: str) -> None:
    """Another type, value or table is another configuration."""
    assert groups(one, two) == ()


def test_the_sentence_names_them_and_the_reason() -> None:
    """It says that the order has no effect where that is what differs, and stands once for all models."""
    matrix = matrix_of("{types: [draft-mtp, ngram-mod]}", "{types: [ngram-mod, draft-mtp]}")
    both = [(model, config) for model in ("a", "b") for config in ("none", "one", "two")]
    (line,) = lines(matrix, [("one", "two")], both)
    assert line == (
        "one and two are one configuration to llama.cpp: the order of types has no effect; "
        "what differs between them is noise"
    )
    (same_order,) = lines(matrix_of("{types: [ngram-mod]}", "{types: [ngram-mod]}"), [("one", "two")], both)
    assert "order" not in same_order


def test_nothing_is_said_where_no_model_runs_both() -> None:
    """One of them alone has nothing to be confused with."""
    matrix = matrix_of("{types: [ngram-mod]}", "{types: [ngram-mod]}")
    assert lines(matrix, [("one", "two")], [("a", "one"), ("b", "two"), ("a", "none")]) == []
