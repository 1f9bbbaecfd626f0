"""Which matrix a run is of, and the folder that its paths start from."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.errors import OptionError
from pytest_ngram.shipped import shipped

if TYPE_CHECKING:
    import pytest

MATRIX = "bench/matrix.yaml"


@dataclass(frozen=True)
class User:
    """A test file that needs the matrix.

    Args:
        path: the file.
        cells: whether it has cells, which are measured, and not only a test of a server, table or prompt set.
    """

    path: Path
    cells: bool


def base(config: pytest.Config) -> tuple[Path, bool]:
    """Return the project's folder, and whether it is known to be its root.

    It is pytest's root, or without an ini file the folder that pytest was called in.

    Without an ini file pytest's root is the folder common to all paths on its command line, and it counts the
    path in `--llama-server /opt/llama.cpp/llama-server` among them.
    """
    chosen = config.inipath is not None or config.getoption("rootdir", None) is not None
    return (config.rootpath if chosen else config.invocation_params.dir), chosen


def matrix_of(config: pytest.Config, users: Collection[User]) -> Path:
    """Return the matrix of a run, which need not be readable.

    That is, in this order: the one of `--ngram-matrix`, from where the command was given; the one of the ini
    file, from the root; `matrix.yaml` beside the cells; the nearest `bench/matrix.yaml` at or above the test
    file, up to the root where an ini file or `--rootdir` tells it; `bench/matrix.yaml` of the root. Only for
    tests that measure nothing, where there is none of these, the one that comes with the package.

    Raises:
        OptionError: cells have none, or two test files have two.
    """
    root, is_known = base(config)
    here = config.invocation_params.dir
    for start, named in ((here, config.getoption("ngram_matrix")), (root, config.getini("ngram_matrix"))):
        if named:
            return Path(start, named)
    found: dict[Path, Path] = {}
    for user in users:
        places = list(dict.fromkeys(_places(user, root, is_known=is_known)))
        # a link to nowhere is there: what it was to be is not known, so nothing may take its place
        own = next((place for place in places if os.path.lexists(place)), None)
        if own is None and user.cells:
            raise _no_matrix(user.path, places)
        found.setdefault(own or shipped("matrix.yaml"), user.path)
    if len(found) > 1:
        raise OptionError(
            "the tests of one run have two matrices",
            checked=[f"{matrix} for {path}" for matrix, path in found.items()],
            fix="run their folders one after the other, or name one matrix for all with --ngram-matrix",
        )
    fallback = root / MATRIX if os.path.lexists(root / MATRIX) else shipped("matrix.yaml")
    return next(iter(found), fallback)


def _places(user: User, root: Path, *, is_known: bool) -> Iterable[Path]:
    folder = user.path.parent
    if user.cells:
        yield folder / Path(MATRIX).name
    for above in (folder, *folder.parents):
        yield above / MATRIX
        if is_known and above == root:
            return
    yield root / MATRIX


def _no_matrix(path: Path, places: Iterable[Path]) -> OptionError:
    return OptionError(
        "the cells have no matrix, which says what is measured",
        checked=[f"cells: {path}", *(f"{place}: not there" for place in places)],
        fix="write one with `pytest-ngram init`, or name yours with --ngram-matrix",
    )
