"""A user's matrix: the shipped one with their model and table in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.init.advice import Advice
from pytest_ngram.init.matrix_text import TABLE, TABLE_CONFIG, OwnCorpus, OwnModel, matrix_text
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.spec import TableSpec
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.shipped import shipped

TEMPLATE = shipped("matrix.yaml").read_text(encoding="utf-8")
ADVICE = Advice(("none", TABLE_CONFIG), ("general",), "-c 4096 -t 4", 2**20, ("a reason",))


@pytest.mark.parametrize(
    "name",
    [
        "plain.gguf",
        "with space.gguf",
        "a#b.gguf",
        "quote\"d'.gguf",
        "Модель: новая.gguf",
        "on.gguf",
        "~x.gguf",
    ],
)
def test_any_path_is_read_back(tmp_path: Path, session_cache: Path, name: str) -> None:
    """Whatever letters a path has, YAML gives it back; inside the repository it is relative to bench/."""
    made = generate(HandBuiltSpec(), session_cache / "models")
    for place in (tmp_path / "elsewhere", tmp_path / "repo" / "models"):
        place.mkdir(parents=True)
        path = place / name
        path.symlink_to(made)
        model = OwnModel("mine", inspect(path), ADVICE)
        corpus = OwnCorpus(path, 3, ("assistant",), 2)
        bench = tmp_path / "repo" / "bench"
        matrix = decode_matrix(matrix_text(TEMPLATE, bench, model, corpus), "matrix.yaml")
        found = matrix.models["mine"].path
        assert found is not None
        assert (bench / found).resolve() == made
        assert Path(found).is_absolute() == (place.name == "elsewhere")
        source = matrix.tables[TABLE].corpus
        assert source is not None
        assert source.path == found


def test_a_table_is_built_as_asked(tmp_path: Path) -> None:
    """Roles and the leave to leave out bad lines are written where they are needed, and only there."""
    for corpus, roles, on_bad in (
        (OwnCorpus(tmp_path / "c", 9, (), 0), None, "error"),
        (OwnCorpus(tmp_path / "c", 9, ("assistant",), 4), ("assistant",), "count"),
    ):
        matrix = decode_matrix(matrix_text(TEMPLATE, tmp_path / "bench", None, corpus), "matrix.yaml")
        table = matrix.tables[TABLE]
        assert (table.roles, table.on_bad_line) == (roles, on_bad)
        assert table.top_k == TableSpec().top_k
        assert matrix.configs[TABLE_CONFIG].table == TABLE


def test_without_anything_it_is_the_shipped_one(tmp_path: Path) -> None:
    """Nothing named, nothing changed."""
    assert matrix_text(TEMPLATE, tmp_path, None, None) == TEMPLATE


def test_a_template_that_changed_is_noticed(tmp_path: Path) -> None:
    """Nothing is lost in silence if the shipped matrix loses a section."""
    with pytest.raises(ValueError, match="no line 'tables:'"):
        matrix_text("version: 1\n", tmp_path, None, OwnCorpus(tmp_path, 1, (), 0))
