"""Gates from the outside: what is stored, what fails, what the last lines say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.cli import main
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options import cache_folder

if TYPE_CHECKING:
    from conftest import GateProject

KINDS = ["control", "prompt", "identity", "vacuity", "isolation", "accounting", "golden", "seam", "known"]


def counts(result: pytest.RunResult) -> list[str]:
    """The last lines, one per kind of gate."""
    return [line for line in result.outlines if " known issue, " in line and "===" not in line]


def test_goldens_are_stored_when_asked_and_judged_after(gates: GateProject) -> None:
    """Without goldens their gates fail with the command that stores them; stored, all is green, run twice."""
    which = "gates/test_golden.py"
    bare = gates.run(tests=which)
    assert bare.ret == 1
    bare.stdout.fnmatch_lines(
        [
            "*golden: none stored*",
            "*pytest *gates/test_golden.py *--gates-update*",
            "golden *0 passed, 2 failed*",
        ]
    )
    assert not (gates.gates / "golden").exists()
    stored = gates.run("--gates-update", tests=which)
    assert stored.ret == 0
    stored.stdout.fnmatch_lines(["golden *0 passed, 0 failed, *2 not checked (2 stored)*"])
    assert sorted(path.name for path in (gates.gates / "golden").iterdir()) == ["tiny.texts.yaml"]
    before = (gates.gates / "golden" / "tiny.texts.yaml").read_bytes()
    again = gates.run(tests=which)
    assert again.ret == 0
    again.stdout.fnmatch_lines(["golden *2 passed, 0 failed*"])
    assert (gates.gates / "golden" / "tiny.texts.yaml").read_bytes() == before


def test_all_gates_alone_and_by_workers(gates: GateProject) -> None:
    """All kinds are green on the hand-built model, count the same under xdist, and end in one line each."""
    assert gates.run("--gates-update", tests="gates/test_golden.py").ret == 0
    assert gates.run("--gates-update", tests="gates/test_prompt.py").ret == 0
    report = gates.project.path / "report.json"
    alone = gates.run(f"--gates-report={report}")
    assert alone.ret == 0, alone.stdout.str()
    workers = gates.run("-n", "2", "--dist", "loadgroup")
    assert workers.ret == 0, workers.stdout.str()
    lines = counts(alone)
    assert [line.split()[0] for line in lines] == KINDS
    assert counts(workers) == lines
    assert all(" 0 failed" in line for line in lines)
    saved = json.loads(report.read_text())
    assert saved["capabilities"]["tables"]["empty"] == "loads"
    assert all(verdict["status"] != "failed" for verdict in saved["verdicts"].values())


def test_a_config_that_never_drafts_fails(gates: GateProject) -> None:
    """A config whose identity would pass without a single draft fails as vacuous, unless it says why."""
    gates.project.edit(
        "  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}", "  idle: {types: [ngram-mod]}"
    )
    result = gates.run("-k", "idle", tests="gates/test_vacuity.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*vacuity: vacuous*", "*nothing was drafted*"])
    gates.project.edit("flags: -c 4096 -t 1}", "flags: -c 4096 -t 1, abstains: {idle: short texts}}")
    result = gates.run("-k", "idle", tests="gates/test_vacuity.py")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*it abstains*", "vacuity *1 passed*(1 abstains)*"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("generate: {target: 0.7}, flags", "path: nowhere.gguf, flags", "*the model file does not exist*"),
        ("draft-mtp", "draft-dspark", "*GGML_ASSERT*"),
    ],
)
def test_what_is_not_there_fails(gates: GateProject, old: str, new: str, said: str) -> None:
    """A model that is missing, or a type that cannot run, fails the gate; nothing is skipped."""
    gates.project.edit("flags: -c 4096 -t 1}", "flags: -c 4096 -t 1, draft: {generate: {sigma: 1}}}")
    gates.project.edit(old, new)
    result = gates.run("-k", "mtp1 and word-en", tests="gates/test_accounting.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines([said])
    assert "skipped" not in result.stdout.str()
    result.stdout.fnmatch_lines(["accounting *0 passed, 1 failed*"])


@pytest.mark.parametrize("named", ["/nowhere/llama-server", "http://127.0.0.1:9"])
def test_an_engine_that_cannot_be_started_fails(gates: GateProject, named: str) -> None:
    """A missing binary, and a server that gates cannot start anew, fail."""
    result = gates.run(f"--llama-server={named}", "-k", "none", tests="gates/test_control.py")
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        ["*EngineError*" if "nowhere" in named else "*gates need servers*", "*to do: *"]
    )
    assert "passed" not in result.stdout.str().splitlines()[-1]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("models: []", "*OptionError*no model*"),
        ("configs: [none]", "*gate vacuity has a test without cases*"),
    ],
)
def test_no_cases_is_no_green_run(gates: GateProject, section: str, said: str) -> None:
    """A gate without a single model, or a test of it without a case, fails the run."""
    gates.project.edit("profiles:", f"gates: {{{section}}}\nprofiles:")
    result = gates.run(tests="gates/test_vacuity.py")
    assert result.ret != 0
    result.stdout.fnmatch_lines([said])


def test_sessions_share_nothing(gates: GateProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that a worker of another run started keeps evidence of its own."""
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "of-another-run")
    (gates.gates / "conftest.py").write_text(
        "from pytest_ngram.pytest_fixtures.gates import RUN\n"
        "def pytest_report_header(config):\n"
        "    return f'evidence of {config.stash[RUN]}'\n"
    )
    result = gates.run("--collect-only", tests="gates/test_control.py")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["evidence of *"])
    result.stdout.no_fnmatch_line("evidence of of-another-run")


def test_a_skip_is_a_failure(gates: GateProject) -> None:
    """A gate test that skips itself has judged nothing."""
    path = gates.gates / "test_control.py"
    path.write_text(
        path.read_text().replace("    ngram_gate.settle(", "    pytest.skip('later')\n    ngram_gate.settle(")
    )
    result = gates.run("-k", "word-en", tests="gates/test_control.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*control: skipped*", "control *0 passed, 1 failed*"])


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_an_expected_failure_fails(gates: GateProject, workers: tuple[str, ...]) -> None:
    """What pytest forgives a test that is marked, or calls itself, `xfail`, a gate is not forgiven."""
    (gates.gates / "test_own.py").write_text(
        "import pytest\n"
        "from pytest_ngram.judge.types import failed\n"
        "@pytest.mark.xfail\n"
        "@pytest.mark.ngram_gate('control', over='model')\n"
        "def test_marked(ngram_gate):\n"
        "    ngram_gate.settle(failed('control', 'marked', []))\n"
        "@pytest.mark.ngram_gate('control', over='model')\n"
        "def test_called(ngram_gate):\n"
        "    pytest.xfail('later')\n"
    )
    for which in ("marked", "called"):
        result = gates.run("-k", which, *workers, tests="gates/test_own.py")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["control *0 passed, 1 failed*", f"FAILED *test_{which}*"])


def test_missing_issues_are_told(gates: GateProject) -> None:
    """Without known_issues.yaml nothing is judged, and the error says what to write."""
    (gates.gates / "known_issues.yaml").unlink()
    result = gates.run(tests="gates/test_control.py")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*known issues cannot be read*", "*issues: *"])


def test_what_the_seam_cannot_see_is_counted_or_fails(gates: GateProject) -> None:
    """Without llama-eval-callback the graph is not checked, beside other gates; strictly, that fails."""
    loose = gates.run("-k", "graph or metrics", tests="gates/test_seam.py")
    assert loose.ret == 0
    loose.stdout.fnmatch_lines(["seam *1 passed, 0 failed, *1 not checked (1 not offered)*"])
    strict = gates.run("-k", "graph", "--strict-seam", tests="gates/test_seam.py")
    assert strict.ret == 1
    strict.stdout.fnmatch_lines(["*seam: not offered*"])


def test_a_run_that_judged_nothing_fails(gates: GateProject) -> None:
    """Nothing but what could not be looked at is no green run, and the last lines say so."""
    result = gates.run("-k", "graph or symbols", tests="gates/test_seam.py")
    assert result.ret == 1
    said = "FAILED: no gate was judged at all: 1 not checked, none listed; 1 not checked, not offered"
    result.stdout.fnmatch_lines([said, "seam *0 passed, 0 failed, *2 not checked*"])


def scripted_server(gates: GateProject, then: str) -> str:
    """A program that is known for a llama-server by its version, and does `then` when it is started."""
    path = gates.project.path / "llama-server"
    version = "[ \"$1\" = --version ] && echo 'version: 11549 (unknown)' && exit"
    path.write_text(f"#!/bin/sh\n{version}\n{then}\n")
    path.chmod(0o755)
    return f"--llama-server={path}"


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_build_that_cannot_be_asked_has_a_report(gates: GateProject, workers: tuple[str, ...]) -> None:
    """A build that dies at its start fails its gates; the report says that it is not known, and why."""
    report = gates.project.path / "report.json"
    broken = scripted_server(gates, "echo no such instruction; exit 7")
    which = ("-k", "metrics or word-en", broken, f"--gates-report={report}", *workers)
    result = gates.run(*which, tests="gates/test_seam.py")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.fnmatch_lines(
        ["FAILED: what the build has is not known:", "*checked: *7*", "seam *1 failed*"]
    )
    saved = json.loads(report.read_text())
    assert saved["build"].endswith("(b11549)")
    assert saved["capabilities"] is None
    assert any("7" in line for line in saved["unknown"])
    assert [verdict["status"] for verdict in saved["verdicts"].values()] == ["failed"]


def test_a_report_that_cannot_be_written_is_told(gates: GateProject) -> None:
    """Verdicts are shown all the same, and the run fails."""
    folder = gates.project.path / "reports"
    folder.mkdir()
    (gates.gates / "conftest.py").write_text(
        f"def pytest_runtestloop():\n    import pathlib\n    pathlib.Path({str(folder)!r}).rmdir()\n"
    )
    path = folder / "report.json"
    result = gates.run("-k", "metrics", f"--gates-report={path}", tests="gates/test_seam.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"FAILED: the report {path} cannot be written: *", "seam *1 passed*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--gates-report=none/report.json", "*none/report.json is in no folder*"),
        ("--gates-report=gates", "*gates is a folder*"),
        ("--gates-report=", "*--gates-report names nothing*"),
        ("--gates-golden=", "*--gates-golden names nothing*"),
    ],
)
def test_a_path_that_cannot_be_used_is_told_before_the_run(
    gates: GateProject, option: str, said: str
) -> None:
    """Not after minutes of gates; and an option that a variable left empty is not as if it were not there."""
    result = gates.run("-k", "metrics", "--gates-update", option, tests="gates/test_seam.py")
    assert result.ret != 0
    result.stdout.fnmatch_lines([said, "*to do: *"])
    result.stdout.no_fnmatch_line("seam *")


def test_a_program_that_cannot_show_the_graph_fails(gates: GateProject) -> None:
    """That is another thing than a build without the program, and hides nothing else that the build has."""
    server = scripted_server(gates, f'exec {sys.executable} -m pytest_ngram.engine.embedded "$@"')
    callback = gates.project.path / "llama-eval-callback"
    callback.write_text("#!/bin/sh\nexit 3\n")
    callback.chmod(0o755)
    result = gates.run("-k", "graph or metrics", server, tests="gates/test_seam.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*seam: not seen*", "*exit code 3*", "seam *1 passed, 1 failed*"])


def test_a_golden_of_another_engine_is_told(gates: GateProject) -> None:
    """It cannot be compared, as the last lines say beside the green of other models; strictly, it fails."""
    gates.project.edit("models:", f"models:\n  real: {{path: {hand_built()}, flags: -c 4096 -t 1}}")
    which = ("-k", "none and word-en", "--gates-update")
    assert gates.run(*which, tests="gates/test_golden.py").ret == 0
    (path,) = (gates.gates / "golden").glob("real.texts.*.yaml")
    path.write_text(path.read_text().replace("family: xllamacpp", "family: other"))
    for strict in ((), ("--strict-golden",)):
        result = gates.run("-k", "none and word-en", *strict, tests="gates/test_golden.py")
        assert result.ret == bool(strict)
        result.stdout.fnmatch_lines(
            ["*golden: another fingerprint*" if strict else "golden: cannot compare; another fingerprint*"]
        )
        if not strict:
            result.stdout.fnmatch_lines(["NOT COMPARED: golden of real: 1 another fingerprint, *"])
    path.write_text(path.read_text().replace("family: other", "family: xllamacpp").replace("AVX2", "AVX9"))
    result = gates.run("-k", "none and word-en", tests="gates/test_golden.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*golden: another fingerprint*", "*isa: stored *", "*--gates-update*"])


def hand_built() -> Path:
    """A model file of which the matrix says no rule."""
    return generate(HandBuiltSpec(target=0.7), cache_folder() / "models")


def test_a_difference_of_reports_needs_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no report is told as that."""
    (tmp_path / "a.json").write_text("{}")
    assert main(["gates-diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 1
    assert "no report of a run of gates" in capsys.readouterr().err
