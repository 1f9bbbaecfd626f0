"""`echo` of a profile: prompts out of the corpus of a table."""

from __future__ import annotations

from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.matrix.strict import fail, unknown
from pytest_ngram.record import ECHO


def check_name_is_free(file: str, matrix: MatrixSpec) -> None:
    """Fail where a prompt set has the name of the one that `echo` makes. Raises `MatrixError`."""
    if ECHO in matrix.prompt_sets:
        fail(
            file,
            f"prompt_sets.{ECHO}",
            "is the name of prompts out of a corpus",
            checked=["`echo` of a profile makes this set"],
            fix="give the set another name",
        )


def check_echo(file: str, name: str, matrix: MatrixSpec) -> None:
    """Fail unless echo prompts can come out of a corpus, for configs that have a table of it.

    Raises:
        MatrixError: no such table, a table without a corpus, or one that no config of the profile reads.
    """
    run = {table for model in matrix.models_of(name) for table in matrix.echo_tables(model, name)}
    for table in matrix.profiles[name].echo:
        path = f"profiles.{name}.echo.{table}"
        if table not in matrix.tables:
            unknown(file, path, "table", table, matrix.tables)
        if matrix.tables[table].corpus is None:
            fail(
                file,
                path,
                "is a ready file, so there is no corpus to take prompts from",
                fix="name a table that is built from a `corpus`",
            )
        if table not in run:
            fail(
                file,
                path,
                "no config of the profile reads this table",
                checked=[f"read: {', '.join(dict.fromkeys(_tables_read(name, matrix))) or '(none)'}"],
                fix="name a table that a config of the profile reads",
            )


def _tables_read(profile: str, matrix: MatrixSpec) -> list[str]:
    configs = (name for model in matrix.models_of(profile) for name in matrix.configs_of(model, profile))
    return [table for name in configs if (table := matrix.configs[name].table) is not None]
