"""The CI workflow on a binary that CMake puts where llama.cpp's build puts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.engine import packaged
from pytest_ngram.init import Wanted, write
from pytest_ngram.init.write import WORKFLOW

if TYPE_CHECKING:
    from conftest import Workflow

CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(stand-in NONE)
add_custom_target(llama-server COMMAND ${CMAKE_COMMAND} -E copy
  ${CMAKE_SOURCE_DIR}/llama-server ${CMAKE_BINARY_DIR}/bin/llama-server)
"""


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    subprocess.run([*command, "-C", str(folder), *arguments], check=True, capture_output=True)


def test_every_step_on_two_builds(
    workflow: type[Workflow], program: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """Both pins are fetched and built, a build that is there is not made again, and the report has both."""
    upstream, repository = tmp_path / "llama.cpp", tmp_path / "repository"
    for path in (upstream, repository):
        path.mkdir()
        git(path, "init", "--quiet")
    (upstream / "CMakeLists.txt").write_text(CMAKE)
    links = packaged.library_folder(program, cache_dir)
    script = upstream / "llama-server"
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={links or ""} exec {program} "$@"\n')
    script.chmod(0o755)
    git(upstream, "add", ".")
    git(upstream, "commit", "--quiet", "-m", "one")
    git(repository, "submodule", "--quiet", "add", str(upstream), "llama.cpp")
    git(repository, "commit", "--quiet", "-m", "pin")
    git(upstream, "commit", "--quiet", "--allow-empty", "-m", "two")
    git(repository / "llama.cpp", "pull", "--quiet")
    git(repository, "commit", "--quiet", "-am", "bump")
    write(Wanted(repository))
    run = workflow(repository / WORKFLOW, repository, tmp_path)
    # fetching a pin from a folder is not allowed by git's own settings
    run.env |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.file.allow",
        "GIT_CONFIG_VALUE_0": "always",
    }
    run.env |= {"MODELS": "tiny-moe", "CELLS": "none/ or mtp1/"}
    for step in ("Find both pins", "Build both", "Gates on the new pin", "Cells on both pins"):
        done = run.run(step)
        assert done.returncode == 0, f"{step}: {done.stdout}\n{done.stderr}"
    for pin in (run.env["BASE_PIN"], run.env["HEAD_PIN"]):
        assert os.access(repository / ".ngram-builds" / pin / "llama-server", os.X_OK)
    assert run.env["BASE_PIN"] != run.env["HEAD_PIN"]
    again = run.run("Build both")
    assert again.returncode == 0
    assert "llama-server" not in again.stdout  # nothing was built
    assert run.run("Report", GATES="success", CELLS_ENDED="success").returncode == 0
    assert run.summary.read_text().count("tiny-moe: 4 prompts") == 2


def test_a_binary_of_the_repository_is_named_from_its_root(
    program: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """`init` writes no path of this host into a file that is committed, and a run from a folder finds it."""
    links = packaged.library_folder(program, cache_dir)
    script = tmp_path / "build" / "llama-server"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={links or ""} exec {program} "$@"\n')
    script.chmod(0o755)
    write(Wanted(tmp_path, engine=str(script)))
    assert "\nllama_server = build/llama-server\n" in (tmp_path / "pytest.ini").read_text()
    one = "test_the_counts_agree and mtp1/word-en"
    command = [sys.executable, "-m", "pytest", "-q", "-k", one, "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path / "gates", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert (tmp_path / "gates" / ".ngram").exists() is False
