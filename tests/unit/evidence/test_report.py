"""What is told of two runs of the gates."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.evidence.report import GateReport, diff_lines, read_report
from pytest_ngram.judge.types import Verdict, failed, passed

TEXT = "gates/test_identity.py::test_drafts[m/mtp1/{}]"
ISSUE = "gates/test_known_issues.py::test_it[past-the-end]"
GOLDEN = "gates/test_golden.py::test_it[m/none/a]"

OLD = GateReport(
    build="b1",
    capabilities=None,
    unknown=("it hangs",),
    verdicts={
        TEXT.format("a"): passed("identity"),
        TEXT.format("b"): passed("identity", kind="numeric near-tie"),
        ISSUE: Verdict("known issues", "known issue"),
        GOLDEN: Verdict("golden", "not checked", "stored"),
    },
)
NEW = GateReport(
    build="b2",
    capabilities=None,
    verdicts={
        TEXT.format("a"): failed("identity", "logic fault", []),
        TEXT.format("b"): passed("identity"),
        ISSUE: passed("known issues", kind="fixed in b2"),
        GOLDEN: passed("golden"),
    },
)


def test_difference_of_two_runs() -> None:
    """Builds, identity per config, known issues, and each verdict that changed; a stored golden is none."""
    assert diff_lines(OLD, NEW) == [
        "b1 -> b2",
        "",
        "capabilities",
        "  not known of the old build",
        "    it hangs",
        "  not known of the new build",
        "",
        "identity by config",
        "  m/mtp1: 1 of 2 identical, 1 numeric near-tie, then 1 of 2 identical, 1 logic fault",
        "",
        "known issues",
        "  past-the-end: known issue -> passed (fixed in b2)",
        "",
        "gates whose verdict changed",
        f"  {TEXT.format('a')}: passed -> failed (logic fault)",
        f"  {TEXT.format('b')}: passed (numeric near-tie) -> passed",
        f"  {ISSUE}: known issue -> passed (fixed in b2)",
    ]


def test_a_run_is_no_change_to_itself() -> None:
    """The same run twice changes nothing."""
    assert diff_lines(NEW, NEW)[-1] == "  none"


def test_reports_are_read_strictly(tmp_path: Path) -> None:
    """A report comes back as it was written; anything else is told."""
    path = tmp_path / "report.json"
    path.write_bytes(msgspec.json.encode(OLD))
    assert read_report(path) == OLD
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(OLD), "schema": 2}))
    with pytest.raises(OptionError, match="has schema 2"):
        read_report(path)
    path.write_text("{}")
    with pytest.raises(OptionError, match="no report"):
        read_report(path)


def test_a_test_of_the_old_run_alone_is_told() -> None:
    """What the new build was not asked, or has no answer to, is a difference too."""
    fewer = msgspec.structs.replace(NEW, verdicts={TEXT.format("a"): passed("identity")})
    lines = diff_lines(OLD, fewer)
    assert "  past-the-end: known issue -> not run" in lines
    assert f"  {TEXT.format('b')}: passed (numeric near-tie) -> not run" in lines
    assert f"  {GOLDEN}: not checked (stored) -> not run" in lines
