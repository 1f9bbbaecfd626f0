"""Reads the file of known issues."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from pytest_ngram.errors import OptionError
from pytest_ngram.judge.known_issues import KnownIssue, build_number
from pytest_ngram.judge.types import GATES
from pytest_ngram.matrix.spec import SPEC_TYPES
from pytest_ngram.matrix.strict import fail, struct, unknown
from pytest_ngram.matrix.yaml_text import load


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    issues: tuple[dict[str, object], ...]


def read(path: Path, reproductions: Mapping[str, Collection[str]]) -> tuple[KnownIssue, ...]:
    """Return the known issues of a file.

    Args:
        path: the file.
        reproductions: those that exist, by name, and the types that each asks.

    Raises:
        OptionError: the file is not there, or is no text.
        MatrixError: an unknown key, type, gate or reproduction, no type or one that the reproduction does not
            ask, a build that is no `bNNNNN`, or an id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"the known issues cannot be read: {getattr(error, 'strerror', error)}",
            checked=[str(path)],
            fix="write known_issues.yaml beside the gates; `issues: []` where there are none",
        ) from error
    found = struct(path.name, "", load(text, path.name), _File)
    issues = tuple(struct(path.name, f"issues[{i}]", each, KnownIssue) for i, each in enumerate(found.issues))
    for i, issue in enumerate(issues):
        _check(path.name, f"issues[{i}]", issue, reproductions)
        if issue.id in [other.id for other in issues[:i]]:
            fail(path.name, f"issues[{i}].id", f"{issue.id!r} stands twice", fix="give each an id of its own")
    return issues


def _check(file: str, place: str, issue: KnownIssue, reproductions: Mapping[str, Collection[str]]) -> None:
    for name in issue.types:
        if name not in SPEC_TYPES:
            unknown(file, f"{place}.types", "speculative type", name, SPEC_TYPES)
    for each in issue.explains:
        if each.gate not in GATES:
            unknown(file, f"{place}.explains", "gate", each.gate, GATES)
    if issue.reproduce not in reproductions:
        unknown(file, f"{place}.reproduce", "reproduction", issue.reproduce, reproductions)
    asked = sorted(reproductions[issue.reproduce])
    if not issue.types or not set(issue.types) <= set(asked):
        # without a type no build is asked; one that is not asked would be excused by the fault of another
        fail(
            file,
            f"{place}.types",
            "are to be some of those that the reproduction asks",
            checked=[
                f"types: {', '.join(issue.types) or '(none)'}",
                f"{issue.reproduce} asks {', '.join(asked)}",
            ],
            fix="name these, or another reproduction",
        )
    if issue.fixed_in is not None and build_number(issue.fixed_in) is None:
        fail(file, f"{place}.fixed_in", f"{issue.fixed_in!r} is no build", fix="write it as b11434")
