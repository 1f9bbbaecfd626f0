"""What gates found reaches the verdict of a bench on the same build, and of no other."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import GateProject

# what other processes take is not the question here
BENCH = ("-k", "none/ or mtp1/", "--benchmark-quiet", "--ngram-contended=100%", "--ngram-pressure=100%")


def report(run: Path, gates: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_ngram.cli", "report", str(run), "--gates", str(gates)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def edited(path: Path, name: str, **engine: Any) -> Path:
    """The same report, as if another build had been judged."""
    data = json.loads(path.read_text(encoding="utf-8"))
    data["capabilities"]["engine"].update(engine)
    other = path.with_name(name)
    other.write_text(json.dumps(data), encoding="utf-8")
    return other


def test_a_gate_that_failed_forbids_in_all_reports(gates: GateProject) -> None:
    """Gates on a real server, of which one fails since no golden is stored: bench and report both say it.

    A report of another build is refused: before anything is measured where its name tells, else by the
    first server, and then no word says that gates passed.
    """
    found = gates.project.path / "gates.json"
    ran = gates.run(
        "-k", "golden or (identity and mtp1 and word-en)", f"--gates-report={found}", "--benchmark-disable"
    )
    assert ran.ret == 1
    saved = gates.project.path / "run.json"
    options = (*BENCH, "--ngram-report=r.md", "--ngram-report=r.html")
    ended = gates.project.run(*options, f"--benchmark-json={saved}", f"--ngram-gates={found}")
    assert ended.ret == 0, ended.stdout.str()
    counted = "gates: passed 3, failed 2"
    why = "do not adopt: the gate golden failed: none stored (tiny/none/word-en and 1 more)"
    said = ended.stdout.str()
    assert f"  mtp1  {why}" in said
    assert f"{counted} (gates.json, " in said
    for name in ("r.md", "r.html"):
        text = (gates.project.path / name).read_text(encoding="utf-8")
        assert counted in text
        assert "the gate golden failed: none stored" in text
    told = report(saved, found)
    assert told.returncode == 0, told.stderr
    assert f"  mtp1  {why}" in told.stdout
    _another_build(gates, saved, found)


def _another_build(gates: GateProject, saved: Path, found: Path) -> None:
    journals = len(list((gates.project.path / ".ngram").glob("*.jsonl")))
    named = edited(found, "named.json", build="b1-0000000", binary_sha256="00" * 32)
    refused = report(saved, named)
    assert refused.returncode == 2
    assert "another build" in refused.stderr
    assert refused.stdout == ""
    early = gates.project.run(*BENCH, f"--ngram-gates={named}")
    assert early.ret == pytest.ExitCode.INTERRUPTED
    early.stdout.fnmatch_lines(
        ["*OptionError: the gates judged another build*", "*b1-0000000 in named.json*"]
    )
    assert len(list((gates.project.path / ".ngram").glob("*.jsonl"))) == journals
    code = edited(found, "code.json", binary_sha256="00" * 32)
    late = gates.project.run("-k", "word-en and first", "--benchmark-quiet", f"--ngram-gates={code}")
    assert late.ret == pytest.ExitCode.TESTS_FAILED
    late.stdout.fnmatch_lines(["*the gates judged another build*", "gates: not run*", "NO GATES: *"])
    assert "gates: passed" not in late.stdout.str()


def test_an_ini_file_names_them_for_benches_alone(gates: GateProject) -> None:
    """A file that is not there stops a bench before it measures, and never the gates that would write it."""
    gates.project.pytester.makeini("[pytest]\nngram_gates = gates.json\n")
    stopped = gates.project.run(*BENCH)
    assert stopped.ret == pytest.ExitCode.INTERRUPTED
    stopped.stdout.fnmatch_lines(["*no report of a run of gates*", "*gates.json*", "*--gates-report=FILE*"])
    assert not list(gates.project.path.glob(".ngram/*.jsonl"))
    written = gates.run("-k", "word-en", "--gates-report=gates.json", tests="gates/test_control.py")
    assert written.ret == 0, written.stdout.str()
    assert (gates.project.path / "gates.json").is_file()
