"""The CI workflow that `pytest-ngram init` writes: every shell step is run here, but for building llama.cpp.

That step is run in `tests/native/test_workflow.py`, where there is a binary.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from pytest_ngram.init import Wanted, write
from pytest_ngram.init.write import WORKFLOW, workflow_text

if TYPE_CHECKING:
    from conftest import Workflow

# A repository whose commits need no settings of this host.
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*GIT, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def moved_pin(folder: Path) -> tuple[Path, str, str]:
    """A repository whose last commit moved the pin of its submodule: its path, the old and the new pin."""
    upstream, repository = folder / "upstream", folder / "repository"
    for path in (upstream, repository):
        path.mkdir()
        git(path, "init", "--quiet")
    git(upstream, "commit", "--quiet", "--allow-empty", "-m", "one")
    git(repository, "submodule", "--quiet", "add", str(upstream), "third_party/llama.cpp")
    git(repository, "commit", "--quiet", "-m", "pin")
    git(upstream, "commit", "--quiet", "--allow-empty", "-m", "two")
    git(repository / "third_party/llama.cpp", "pull", "--quiet")
    git(repository, "commit", "--quiet", "-am", "bump")
    one, two = git(upstream, "rev-parse", "HEAD^"), git(upstream, "rev-parse", "HEAD")
    return repository, one, two


@pytest.fixture
def run(workflow: type[Workflow], tmp_path: Path) -> Workflow:
    """The workflow in a repository whose pin moved, with the embedded engine in place of both builds."""
    repository, _one, _two = moved_pin(tmp_path)
    write(Wanted(repository))
    matrix = repository / "bench" / "matrix.yaml"  # one block, to save time
    matrix.write_text(matrix.read_text(encoding="utf-8").replace("blocks: 3", "blocks: 1"), encoding="utf-8")
    found = workflow(repository / WORKFLOW, repository, tmp_path)
    found.env |= {"MODELS": "tiny-moe", "CELLS": "none/ or mtp1/"}
    return found


def test_pins_are_those_of_base_and_head(run: Workflow, tmp_path: Path) -> None:
    """The submodule is found by its URL and path; its pins come from the commit and its first parent."""
    assert run.env["LLAMA_CPP"] == "third_party/llama.cpp"
    assert "third_party/llama.cpp" in run.data[True]["pull_request"]["paths"]  # YAML reads `on` as true
    assert run.run("Find both pins").returncode == 0
    upstream = tmp_path / "upstream"
    assert run.env["BASE_PIN"] == git(upstream, "rev-parse", "HEAD^")
    assert run.env["HEAD_PIN"] == git(upstream, "rev-parse", "HEAD")
    assert run.env["HEAD_SERVER"] == str(
        run.repository / ".ngram-builds" / run.env["HEAD_PIN"] / "llama-server"
    )


def test_gates_cells_and_report(run: Workflow) -> None:
    """Gates pass, both pins are measured; the report has what changed and both tables, a file each cell."""
    run.run("Find both pins")
    run.env |= {"HEAD_SERVER": "", "BASE_SERVER": ""}  # no name is the embedded engine
    gates = run.run("Gates on the new pin", PYTEST_ADDOPTS="-k 'golden or control'")
    assert gates.returncode == 0, gates.stdout
    cells = run.run("Cells on both pins")
    assert cells.returncode == 0, cells.stdout
    report = run.run("Report", GATES="success", CELLS_ENDED="success")
    assert report.returncode == 0, report.stderr
    text = (run.repository / "report.md").read_text()
    assert text == run.summary.read_text()
    assert text.startswith("<!-- pytest-ngram -->\n### llama.cpp " + run.env["BASE_PIN"][:9])
    assert "Gates on the new pin: **success**" in text
    for side in ("base", "head"):
        shown = text.split(f"#### {side}\n")[1]
        assert "tiny-moe: 4 prompts" in shown.split("```")[1]
        assert "mtp1" in shown.split("```")[1]
        saved = json.loads((run.repository / f"{side}.json").read_text())
        label = {bench["extra_info"]["ngram"]["engine"]["label"] for bench in saved["benchmarks"]}
        assert label == {f"{side}-{run.env[f'{side.upper()}_PIN'][:9]}"}
    changed = text.split("#### head against base\n")[1].split("```")[1]
    assert re.search(r"engine +label +base-\w{9} +head-\w{9}\n", changed)
    assert "mtp1: cells on both sides: 4 (blocks: 1, prompts: 4); with the same answer: 4" in changed
    compared = (run.repository / "cells.txt").read_text()
    assert compared.count("tiny-moe/mtp1/word-en/t0/b1") == 3  # the group's name and its two runs


def test_a_gate_that_fails_is_reported(run: Workflow) -> None:
    """The step fails, and the report has what the gate said, even though no cell was measured."""
    for other in run.repository.glob("gates/test_*.py"):
        other.unlink()
    gate = run.repository / "gates" / "test_rule.py"
    gate.write_text("def test_it():\n    assert 1 == 2, 'the text differs'\n")
    run.run("Find both pins")
    run.env |= {"HEAD_SERVER": "", "BASE_SERVER": ""}
    assert run.run("Gates on the new pin").returncode == 1
    report = run.run("Report", GATES="failure", CELLS_ENDED="skipped")
    assert report.returncode == 0, report.stderr
    text = run.summary.read_text()
    assert "Gates on the new pin: **failure**" in text
    assert "the text differs" in text
    assert run.run("Fail if a gate or a cell failed").returncode == 1


@pytest.mark.parametrize(("known", "asked"), [("", "pr comment 7"), ("123", "api --method PATCH")])
def test_one_comment_is_kept_up_to_date(run: Workflow, tmp_path: Path, known: str, asked: str) -> None:
    """The first report is a new comment; a later one takes the place of ours, and of no other's."""
    calls = tmp_path / "calls"
    client = tmp_path / "gh"
    client.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncase "$*" in *--paginate*) echo "{known}";; esac\n')
    client.chmod(0o755)
    (run.repository / "report.md").write_text("a report")
    path = f"{tmp_path}:{run.env['PATH']}"
    done = run.run("Comment", PATH=path, GH_REPO="o/r", PULL="7", GH_TOKEN="t")
    assert done.returncode == 0, done.stderr
    listed, wrote = calls.read_text().splitlines()
    assert "repos/o/r/issues/7/comments" in listed
    assert 'startswith("<!-- pytest-ngram -->")' in listed
    assert wrote.startswith(asked)
    assert "report.md" in wrote
    assert known in wrote


def test_the_right_to_write_is_apart(run: Workflow) -> None:
    """Only the job that comments may write, it runs nothing of the pull request, and never for a fork."""
    assert run.data["permissions"] == {"contents": "read"}
    measure, comment = run.data["jobs"]["measure"], run.data["jobs"]["comment"]
    assert "permissions" not in measure
    assert comment["permissions"] == {"pull-requests": "write"}
    assert "head.repo.full_name == github.repository" in comment["if"]
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"])


def test_no_step_expands_expressions_in_its_shell(run: Workflow) -> None:
    """What a pull request may name reaches the shell as variables only, and every step is valid bash."""
    for name, text in run.steps().items():
        assert "${{" not in text, name
        checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{name}: {checked.stderr}"


@pytest.mark.parametrize(
    "path",
    [
        "ven\\1dor: llama.cpp",
        "third party/llama.cpp # x: y",
        "- llama.cpp",
        "null",
        "8601",
        'a "b"/llama.cpp',
        "модель 😀/llama.cpp",
    ],
)
def test_any_path_of_the_submodule_is_read_back(path: str) -> None:
    """In both places, with nothing else changed in what YAML reads."""
    plain, data = (yaml.safe_load(workflow_text(each)) for each in (None, path))
    assert data["env"].pop("LLAMA_CPP") == path
    told = data[True]["pull_request"]["paths"].pop(0)
    assert re.sub(r"\\(.)", r"\1", told) == path  # a backslash takes a letter as it is
    del plain["env"]["LLAMA_CPP"], plain[True]["pull_request"]["paths"][0]
    assert data == plain


def test_letters_of_patterns_stand_for_themselves() -> None:
    """`paths:` are patterns: in `c++/[x]` the plus would mean one or more, the brackets one of."""
    data = yaml.safe_load(workflow_text("c++/[x]*?!/llama.cpp"))
    assert data[True]["pull_request"]["paths"][0] == r"c\+\+/\[x\]\*\?\!/llama.cpp"
    assert data["env"]["LLAMA_CPP"] == "c++/[x]*?!/llama.cpp"


def test_the_template_stands_for_itself() -> None:
    """The shipped text is the one that is written where no submodule is known, but for the version."""
    text = (Path(__file__).parents[2] / "fixtures" / "ngram.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["env"]["LLAMA_CPP"] == "llama.cpp"
    assert text.count("llama.cpp  ") == 2  # the two places that are filled in
