"""Known issues hold both ways."""

from __future__ import annotations

import pytest

from pytest_ngram.judge.known_issues import (
    Explains,
    KnownIssue,
    Reproduced,
    build_number,
    explain,
    judge,
    named,
)
from pytest_ngram.judge.types import failed, passed


def issue(fixed_in: str | None = None) -> KnownIssue:
    return KnownIssue(
        id="leak",
        title="it leaks",
        types=("ngram-cache",),
        reproduce="leak",
        expect="other drafts",
        upstream=27852,
        fixed_in=fixed_in,
        explains=(Explains("isolation", "drafts differ"),),
    )


@pytest.mark.parametrize(
    ("fixed_in", "build", "shown", "status", "kind"),
    [
        (None, "b11549", True, "known issue", None),
        (None, None, True, "known issue", None),
        (None, "b11549", False, "failed", "fixed"),
        ("b11434", "b11063", True, "known issue", None),
        ("b11434", "b11063", False, "failed", "fixed"),
        ("b11434", "b11434", False, "passed", "fixed in b11434"),
        ("b11434", "b11434-1a2b3c4", True, "failed", "broken again"),
        ("b11434", None, True, "cannot compare", "unknown build"),
        ("b11434", "my-build", False, "cannot compare", "unknown build"),
        (None, "b11549", None, "failed", "not reproduced"),
    ],
)
def test_each_case(
    fixed_in: str | None, build: str | None, shown: bool | None, status: str, kind: str | None
) -> None:
    """A build that fixes an issue or breaks it again fails; what cannot be told is told."""
    verdict = judge(issue(fixed_in), Reproduced(shown, ("seen",)), build)
    assert (verdict.status, verdict.kind) == (status, kind)


def _shown(issue: KnownIssue) -> bool:
    return True


def test_an_issue_that_is_not_shown_explains_nothing() -> None:
    """A build that no longer has it must have another reason; it is looked for only where it matters."""
    leak = failed("isolation", "drafts differ", [])
    asked: list[str] = []

    def not_shown(issue: KnownIssue) -> bool:
        asked.append(issue.id)
        return False

    assert explain(leak, [issue()], ["ngram-cache"], "b11549", not_shown) is leak
    assert asked == ["leak"]
    assert explain(leak, [issue()], ["draft-mtp"], "b11549", not_shown) is leak
    assert explain(passed("isolation"), [issue()], ["ngram-cache"], "b11549", not_shown) == passed(
        "isolation"
    )
    assert asked == ["leak"]


def test_it_explains_its_own_failures_only() -> None:
    """The gate, the class, the type and the build must all be those of the issue."""
    leak = failed("isolation", "drafts differ", [])
    known = explain(leak, [issue()], ["ngram-cache"], "b11549", _shown)
    assert known.status == "known issue"
    assert "27852" in known.text
    for verdict, types, fixed_in in (
        (failed("isolation", "state leak", []), ["ngram-cache"], None),
        (failed("identity", "drafts differ", []), ["ngram-cache"], None),
        (leak, ["draft-mtp"], None),
        (leak, [], None),
        (leak, ["ngram-cache", "draft-mtp"], None),
        (failed("isolation", "drafts differ on another slot", []), ["ngram-cache"], None),
        (leak, ["ngram-cache"], "b11434"),
        (passed("isolation"), ["ngram-cache"], None),
    ):
        assert explain(verdict, [issue(fixed_in)], types, "b11549", _shown) is verdict


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("b11434", 11434),
        ("b11434-abc", 11434),
        ("b1-abc", None),
        ("b999", None),
        ("0", None),
        ("", None),
        (None, None),
    ],
)
def test_build_numbers(said: str | None, number: int | None) -> None:
    """A build's own name gives its number, or nothing; a shallow clone counts its commits from 1."""
    assert build_number(said) == number


@pytest.mark.parametrize(
    ("said", "label", "name"),
    [
        ("b11063", None, "b11063"),
        ("b11063", "b11434", "b11434"),
        ("b11063", "mine", "b11063"),
        ("b1-abc", "mine", "mine"),
        ("b1-abc", None, "b1-abc"),
    ],
)
def test_the_users_number_wins(said: str, label: str | None, name: str) -> None:
    """What a build says of itself may be wrong; who built it knows."""
    assert named(said, label) == name
