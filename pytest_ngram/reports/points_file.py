"""A run of single numbers in a YAML file: read strictly, and told."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_ngram.errors import NgramError, OptionError
from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.matrix.yaml_text import load
from pytest_ngram.report.points import point_lines
from pytest_ngram.verdict.points import PointRun, judge_points, points_from_builtins
from pytest_ngram.verdict.types import Settings

SUFFIXES = (".yaml", ".yml")
_FORM = (
    "groups: {GROUP: [{id: A, config: none, tg: 8.36}, …]}; docs/statistics.md has the other keys of a row"
)


def points_lines(path: Path, settings: Settings) -> list[str]:
    """Return what the numbers of a file point to, line by line. Raises `NgramError`."""
    return point_lines(judge_points(read_points(path), settings, STATEFUL_TYPES))


def read_points(path: Path) -> PointRun:
    """Read a run of single numbers. Keys beside `groups` are passed over; those of a row are not.

    Raises:
        NgramError: it cannot be read, is no YAML, or has another form; the error has the key path.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{path.name} cannot be read", checked=[f"{path}: {error}"], fix="name a YAML file in UTF-8"
        ) from error
    try:
        run = points_from_builtins(load(text, path.name))
    except msgspec.ValidationError as error:
        raise _no_run(path, str(error)) from error
    for group, points in run.groups.items():
        for key in ("id", "config"):
            names = [getattr(point, key) for point in points]
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise _no_run(path, f"{key} {twice[0]!r} is there twice - at `$.groups.{group}`")
    if not any(run.groups.values()):
        raise _no_run(path, "there is no row - at `$.groups`")
    return run


def _no_run(path: Path, what: str) -> NgramError:
    return OptionError(f"{path.name} is no run of single numbers", checked=[what], fix=f"write {_FORM}")
