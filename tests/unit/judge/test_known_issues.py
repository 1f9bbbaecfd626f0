"""Known issues hold both ways."""

from __future__ import annotations

import pytest

from pytest_ngram.judge.known_issues import Explains, KnownIssue, Reproduced, build_number, explain, judge
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


def test_it_explains_its_own_failures_only() -> None:
    """The gate, the class, the type and the build must all be those of the issue."""
    leak = failed("isolation", "drafts differ", [])
    known = explain(leak, [issue()], ["ngram-cache"], "b11549")
    assert known.status == "known issue"
    assert "27852" in known.text
    for verdict, types, fixed_in in (
        (failed("isolation", "state leak", []), ["ngram-cache"], None),
        (failed("identity", "drafts differ", []), ["ngram-cache"], None),
        (leak, ["draft-mtp"], None),
        (leak, [], None),
        (leak, ["ngram-cache"], "b11434"),
        (passed("isolation"), ["ngram-cache"], None),
    ):
        assert explain(verdict, [issue(fixed_in)], types, "b11549") is verdict


@pytest.mark.parametrize(
    ("said", "number"), [("b11434", 11434), ("b7-abc", 7), ("0", None), ("", None), (None, None)]
)
def test_build_numbers(said: str | None, number: int | None) -> None:
    """A build's own name gives its number, or nothing."""
    assert build_number(said) == number
