"""The last lines of a run of gates."""

from __future__ import annotations

from pytest_ngram.judge.tally import lines, no_cases, not_compared, told, vacuous
from pytest_ngram.judge.types import Verdict, failed, passed


def test_one_line_for_each_kind_with_all_counts() -> None:
    """Every count stands there, zeros too, and what was not a plain pass is told by class."""
    found = lines(
        [
            passed("identity"),
            passed("identity", kind="numeric near-tie"),
            failed("identity", "logic fault", []),
            Verdict("isolation", "known issue", "drafts differ"),
            Verdict("golden", "cannot compare", "another fingerprint"),
        ]
    )
    assert found[0] == (
        "identity   2 passed, 1 failed, 0 known issue, 0 cannot compare, 0 not checked "
        "(1 logic fault, 1 numeric near-tie)"
    )
    assert found[1].startswith("isolation  0 passed, 0 failed, 1 known issue, 0 cannot compare")
    assert found[2].startswith("golden     0 passed, 0 failed, 0 known issue, 1 cannot compare")
    assert found[-1].startswith("speed      1 not checked")


def test_what_is_told() -> None:
    """Equal verdicts share a line, plain passes and failures have none, and a comparison is shown whole."""
    known = Verdict("isolation", "known issue", "drafts differ", ("issue 1", "more"))
    other = Verdict(
        "golden", "cannot compare", "another fingerprint", ("isa differs", "first difference at 3")
    )
    verdicts = [(name, known) for name in "abcde"] + [("f", other), ("g", passed("golden"))]
    verdicts += [
        ("h", failed("golden", "none stored", [])),
        ("i", Verdict("golden", "not checked", "stored")),
    ]
    assert told(verdicts) == [
        "isolation: known issue; drafts differ; issue 1 (a, b, c and 2 more)",
        "golden: cannot compare; another fingerprint (f)",
        "  isa differs",
        "  first difference at 3",
        "golden: not checked; stored (i)",
    ]


def test_nothing_ran_says_nothing() -> None:
    """A run without gates has no such lines."""
    assert lines([]) == []


def test_a_kind_that_judged_nothing_is_vacuous() -> None:
    """Only cases that cannot be compared are no green run; the seam may report what it cannot see."""
    golden = Verdict("golden", "cannot compare", "another fingerprint")
    assert vacuous([golden, passed("identity")]) == [
        "the gate golden judged nothing: cannot compare in every case"
    ]
    assert vacuous([golden, passed("golden")]) == []
    assert vacuous([Verdict("isolation", "known issue", "drafts differ")]) == []
    unseen = Verdict("seam", "not checked", "not offered")
    assert vacuous([unseen, passed("identity")]) == []


def test_a_run_that_judged_nothing_is_vacuous() -> None:
    """What may be left unchecked beside other gates is no green run by itself; stored goldens excuse none."""
    unseen = [Verdict("seam", "not checked", "not offered"), Verdict("seam", "not checked", "none listed")]
    assert vacuous(unseen) == [
        "no gate was judged at all: 1 not checked, none listed; 1 not checked, not offered"
    ]
    assert vacuous([*unseen, failed("seam", "missing", [])]) == []
    assert vacuous([no_cases("known issues", "issue")]) == [
        "no gate was judged at all: 1 not checked, no cases needed"
    ]
    stored = Verdict("golden", "not checked", "stored")
    assert vacuous([stored]) == []
    assert vacuous([stored, *unseen]) != []


def test_a_model_that_could_not_be_compared_is_told() -> None:
    """Another model that carries the gate does not hide that nothing of this one was compared."""
    other = Verdict("golden", "cannot compare", "another fingerprint")
    verdicts = [("a/none/p", other), ("a/none/q", other), ("b/none/p", passed("golden"))]
    assert not_compared(verdicts) == ["golden of a: 2 another fingerprint, and no case that was compared"]
    assert not_compared([*verdicts, ("a/none/r", passed("golden"))]) == []
    assert not_compared([("some-issue", Verdict("known issues", "cannot compare", "unknown build"))]) == []


def test_a_test_without_cases_fails_its_kind() -> None:
    """Whatever else was judged; one that may rightly have none fails only a kind that judged nothing else."""
    none, not_needed = no_cases("identity", "drafting/prompt"), no_cases("identity", "rule")
    assert vacuous([none, passed("identity")]) == ["the gate identity has a test without cases"]
    assert vacuous([no_cases("seam", "drafting")]) == ["the gate seam has a test without cases"]
    assert vacuous([not_needed, passed("identity")]) == []
    assert vacuous([not_needed]) == ["the gate identity judged nothing: not checked in every case"]
    assert vacuous([no_cases("known issues", "issue"), passed("identity")]) == []
