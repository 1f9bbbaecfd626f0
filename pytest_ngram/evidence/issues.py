"""Reads the file of known issues."""

from __future__ import annotations

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


def read(path: Path, reproductions: frozenset[str]) -> tuple[KnownIssue, ...]:
    """Return the known issues of a file.

    Raises:
        OptionError: the file is not there.
        MatrixError: an unknown key, type, gate or reproduction, a build that is no `bNNNNN`, or an id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"the known issues cannot be read: {error.strerror}",
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


def _check(file: str, place: str, issue: KnownIssue, reproductions: frozenset[str]) -> None:
    for name in issue.types:
        if name not in SPEC_TYPES:
            unknown(file, f"{place}.types", "speculative type", name, SPEC_TYPES)
    for each in issue.explains:
        if each.gate not in GATES:
            unknown(file, f"{place}.explains", "gate", each.gate, GATES)
    if issue.reproduce not in reproductions:
        unknown(file, f"{place}.reproduce", "reproduction", issue.reproduce, reproductions)
    if issue.fixed_in is not None and build_number(issue.fixed_in) is None:
        fail(file, f"{place}.fixed_in", f"{issue.fixed_in!r} is no build", fix="write it as b11434")
