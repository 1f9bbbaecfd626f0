"""What a report of the gates says to the verdict: never more than it judged, and of no other build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_ngram.engine.build import Build
from pytest_ngram.errors import OptionError
from pytest_ngram.evidence.for_verdict import Taken, take
from pytest_ngram.evidence.report import GateReport, Subject
from pytest_ngram.judge.seam import Report
from pytest_ngram.judge.types import Verdict, failed, passed
from pytest_ngram.record import Cell, Engine, Model, Outcome, Record
from pytest_ngram.verdict.types import GateFailure, GateNote

ENGINE = Engine("binary", None, None, "b11434-abc", None, "ab" * 32, (), (), {})
MTP = ("--spec-type", "draft-mtp"), ("--spec-draft-n-max", "1")
ARGV = ("-m", "/somewhere/m.gguf", "--port", "0", *MTP[1], *MTP[0], "-t", "1")
TEXT = "gates/test_identity.py::test_drafts[m/mtp1/{}]"


def report(verdicts: dict[str, Verdict], engine: Engine | None = ENGINE) -> Taken:
    capabilities = Report(
        build="b",
        version=None,
        flags=(),
        spec_types=(),
        metrics=(),
        timings=(),
        lines={},
        tables={},
        graph=None,
        symbols={},
        engine=engine,
    )
    subjects = {"m/none": Subject("cd" * 32, ()), "m/mtp1": Subject("cd" * 32, tuple(sorted(MTP)))}
    made = GateReport(build="a build", capabilities=capabilities, verdicts=verdicts, subjects=subjects)
    return Taken("g.json", made)


def a_record(config: str = "mtp1", sha256: str = "cd" * 32, **changes: Any) -> Record:
    return Record(
        cell=Cell("m", config, "p", "s", 0.0, 1, "first", 0),
        model=Model("m", sha256, "arch", 1, "ef", 2, None, 0),
        engine=replace(ENGINE, argv=ARGV, **changes),
        server=None,
        rounds=(),
        memory=None,
        host=None,
        table=None,
        outcome=Outcome("ok"),
    )


def test_failures_of_a_config_are_one_and_name_the_first() -> None:
    """Twenty prompts that part make one reason; another class of fault makes another."""
    fault = failed("identity", "logic fault", ["…"])
    taken = report({TEXT.format("a"): fault, TEXT.format("b"): fault, TEXT.format("c"): passed("identity")})
    found = taken.results([a_record()])
    assert found.failures == (
        GateFailure("identity", "logic fault (m/mtp1/a and 1 more)", model="m", config="mtp1"),
    )
    assert found.counts == {"passed": 1, "failed": 2}
    assert found.source == "g.json, a build"


@pytest.mark.parametrize(
    ("test", "model", "config"),
    [
        ("gates/test_control.py::test_it[m/none/a]", "m", None),
        ("gates/test_seam.py::test_it[build]", None, None),
        ("gates/test_known_issues.py::test_it[past-the-end]", None, None),
        ("gates/test_own.py::test_it", None, None),
        ("gates/test_own.py::test_it[extra-m/mtp1/a]", None, None),
        ("gates/test_vacuity.py::test_it[m/mtp1]", "m", "mtp1"),
    ],
)
def test_whom_a_failure_speaks_against(test: str, model: str | None, config: str | None) -> None:
    """The baseline's is of its model, and what names no model and config of the report is of all."""
    (failure,) = report({test: failed("x", "y", [])}).results([]).failures
    assert (failure.model, failure.config) == (model, config)


def test_known_issues_and_what_was_not_judged_are_no_failures() -> None:
    """They are told of their config or model; what is of a part of the build is in the counts alone."""
    verdicts = {
        "i[m/mtp1/a]": Verdict("isolation", "known issue", "drafts differ"),
        "g[m/none/a]": Verdict("golden", "cannot compare", "another family"),
        "g[m/none/b]": Verdict("golden", "not checked", "stored"),
        "s[build]": Verdict("seam", "not checked", "not seen"),
    }
    found = report(verdicts).results([a_record()])
    assert found.failures == ()
    assert found.notes == (
        GateNote("gate-known-issue", "isolation", "drafts differ (m/mtp1/a)", "m", "mtp1"),
        GateNote("gate-not-judged", "golden", "another family (m/none/a)", "m", None),
    )
    assert found.counts == {"known issue": 1, "cannot compare": 1, "not checked": 2}


def test_a_config_is_judged_where_its_text_was_compared() -> None:
    """Not by another gate, nor where identity could not compare; not on another file or with other flags."""
    good = {TEXT.format("a"): passed("identity")}
    assert report(good).results([a_record(), a_record("ngram-mod")]).judged == (("m", "mtp1"),)
    for verdicts in (
        {"v[m/mtp1]": passed("vacuity")},
        {TEXT.format("a"): Verdict("identity", "cannot compare", "control failed")},
    ):
        assert report(verdicts).results([a_record()]).judged == ()
    other_flags = replace(ENGINE, argv=(*ARGV[:-2], "--spec-draft-p-min", "0.5"))
    for record in (a_record(sha256="00" * 32), replace(a_record(), engine=other_flags)):
        assert report(good).results([a_record(), record]).judged == ()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"build": "b11435-abc"}, "another build"),
        ({"binary_sha256": "00" * 32}, "another build"),
        ({"kind": "url", "binary_sha256": None, "build": None}, "nothing tells"),
        ({"kind": "url", "binary_sha256": None, "build": "b1-zzz"}, "another build"),
    ],
)
def test_a_report_of_another_build_is_refused(now: dict[str, Any], said: str) -> None:
    """By what it calls itself and by its code; where nothing tells, it is not taken on trust."""
    taken = report({TEXT.format("a"): passed("identity")})
    with pytest.raises(OptionError, match=said) as caught:
        taken.results([a_record(), a_record(**now)])
    assert "pytest gates --gates-report" in str(caught.value)
    assert "g.json" in str(caught.value)


def test_cells_without_an_engine_are_of_no_build() -> None:
    """Where every server was refused, nothing is said of gates: above all not that they passed."""
    taken = report({TEXT.format("a"): passed("identity")})
    nothing = replace(a_record(), engine=None)
    with pytest.raises(OptionError, match="nothing tells"):
        taken.results([nothing])
    assert taken.results([nothing, a_record()]).judged == (("m", "mtp1"),)


def test_a_server_at_a_url_is_told_by_its_build() -> None:
    """It has no hash; and its flags were compared when it was taken."""
    taken = report({TEXT.format("a"): passed("identity")})
    record = a_record(kind="url", binary_sha256=None)
    assert record.engine is not None
    record = replace(record, engine=replace(record.engine, argv=()))
    assert taken.results([record]).judged == (("m", "mtp1"),)


def test_a_build_is_compared_before_it_is_started() -> None:
    """A name that differs is refused; one that is not known yet is left to the start."""
    taken = report({})
    taken.check_build(Build(name="x", build="b11434-abc"))
    taken.check_build(Build(name="x"))
    with pytest.raises(OptionError, match="another build"):
        taken.check_build(Build(name="x", build="b1-abc"))


def test_a_report_without_its_build_is_refused_at_once(tmp_path: Path) -> None:
    """One of an older version, or of a build that could not be asked, cannot speak for any."""
    path = tmp_path / "g.json"
    path.write_bytes(msgspec.json.encode(report({}, engine=None).report))
    with pytest.raises(OptionError, match="does not say which build"):
        take(path)
    path.write_bytes(msgspec.json.encode(report({}).report))
    assert take(path) == report({})
