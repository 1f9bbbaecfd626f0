"""Known issues of llama.cpp, strict both ways: a build that fixes or re-breaks one is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pytest_ngram.judge.types import Verdict, failed, passed

GATE = "known issues"
FIXED = "fixed"
BROKEN_AGAIN = "broken again"
_FIRST_BUILD = 1000  # a shallow clone counts the commits that it has, and calls itself b1
_BUILD = re.compile(r"b(\d+)")


class Explains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure that a known issue explains: a gate and the class of what it sees."""

    gate: str
    kind: str


class KnownIssue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `known_issues.yaml`.

    Args:
        id: what the test is called.
        title: what is wrong, in a line.
        types: the speculative types that it concerns.
        reproduce: which reproduction shows it.
        expect: what that one sees while the issue is there.
        upstream: llama.cpp's issue number; None where there is none.
        fixed_in: the first build without it, such as `b11434`; None while it is open.
        explains: failures of other gates that it causes.
    """

    id: str
    title: str
    types: tuple[str, ...]
    reproduce: str
    expect: str
    upstream: int | None = None
    fixed_in: str | None = None
    explains: tuple[Explains, ...] = ()


class Reproduced(msgspec.Struct, frozen=True):
    """What a reproduction saw. `shown` is None where it could not tell, and `lines` say why."""

    shown: bool | None
    lines: tuple[str, ...]


def build_number(build: str | None) -> int | None:
    """Return 11434 for `b11434` or `b11434-1a2b3c4`; None for a build that does not say."""
    found = _BUILD.match(build or "")
    number = int(found[1]) if found else 0
    return number if number >= _FIRST_BUILD else None


def named(said: str | None, label: str | None) -> str | None:
    """Return the user's label of a build where it is a number, else what the build says, or that label."""
    if build_number(label) is not None:
        return label
    return said if build_number(said) is not None else (label or said)


def expected(issue: KnownIssue, build: str | None) -> bool | None:
    """Return whether a build has the issue; None where its number would be needed and is not known."""
    fixed, number = build_number(issue.fixed_in), build_number(build)
    if fixed is None:
        return True
    return None if number is None else number < fixed


def judge(issue: KnownIssue, seen: Reproduced, build: str | None) -> Verdict:
    """Return whether a build behaves as the entry says."""
    lines = [
        issue.title,
        f"expected while it is there: {issue.expect}",
        *(f"seen: {line}" for line in seen.lines),
    ]
    wanted = expected(issue, build)
    if seen.shown is None:
        return failed(GATE, "not reproduced", [*lines, "the reproduction could not tell; mend it"])
    if wanted is None:
        lines.append(f"fixed in {issue.fixed_in}; this build does not say its number: --engine-label bNNNNN")
        return Verdict(GATE, "cannot compare", "unknown build", tuple(lines))
    if wanted and seen.shown:
        return Verdict(GATE, "known issue", None, tuple(lines))
    if wanted:
        return failed(GATE, FIXED, [*lines, f"{build or 'this build'} no longer shows it: set `fixed_in:`"])
    if seen.shown:
        return failed(GATE, BROKEN_AGAIN, [*lines, f"fixed in {issue.fixed_in}, and {build} shows it again"])
    return passed(GATE, *lines, kind=f"fixed in {issue.fixed_in}")


def explain(
    verdict: Verdict,
    issues: Iterable[KnownIssue],
    types: Sequence[str],
    build: str | None,
    shown: Callable[[KnownIssue], bool],
) -> Verdict:
    """Return a failure as a known issue where an open one explains exactly its class.

    Args:
        verdict: of a gate.
        issues: the known ones.
        types: the drafting types of the config; one that the issue does not concern may leak by itself, so
            all must be the issue's.
        build: what the build calls itself.
        shown: whether this build shows an issue; asked only for one that would explain.
    """
    if verdict.status != "failed":
        return verdict
    for issue in issues:
        explained = any(each.gate == verdict.gate and each.kind == verdict.kind for each in issue.explains)
        its_types = bool(types) and set(types) <= set(issue.types)
        if explained and its_types and expected(issue, build) and shown(issue):
            number = f" (llama.cpp issue {issue.upstream})" if issue.upstream is not None else ""
            lines = (f"known issue {issue.id}{number}: {issue.title}", *verdict.lines)
            return Verdict(verdict.gate, "known issue", verdict.kind, lines)
    return verdict
