"""What all rings of tests share: a cache folder of the session, and waiting for what other processes do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from hypothesis import settings

from pytest_ngram.options import CACHE_VARIABLE
from pytest_ngram.replay.kernels import keep_kernels

# Before a test imports the drafters: compiling them takes longer than running them. The folder is that of
# these very sources, so sessions may share it.
keep_kernels(Path(tempfile.gettempdir()) / f"pytest-ngram-{os.getuid()}")

# How long an example takes is no promise of any test, and the first one of a drafter compiles it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# No promise of the code under test: only a bound, so that a broken one cannot hang the tests.
DEADLINE_S = 60.0


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache folder of this session, here and in every process started from here.

    A model is generated once a session, and the user's own cache is neither read nor written.
    """
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        # what is started from here is a run of its own, not a worker of this one
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
            patch.delenv(name)
        yield folder


def _wait_for(condition: Callable[[], bool], said: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"it never came true. {said()}"
        time.sleep(0.01)


def _is_gone(pid: int) -> bool:
    """Whether it is gone, or a zombie that nobody has reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., None]:
    """`wait_for(condition)` returns when the condition is true; `said` tells what was seen instead."""
    return _wait_for


@pytest.fixture(scope="session")
def assert_gone() -> Callable[..., None]:
    """`assert_gone(*pids)` returns when these processes have ended."""

    def check(*pids: int) -> None:
        _wait_for(lambda: all(map(_is_gone, pids)), lambda: f"of the processes {pids} some still run")

    return check


class Workflow:
    """A CI workflow whose shell steps are run here, as its runner would: bash, pipefail, GITHUB_ENV.

    Args:
        path: the workflow.
        repository: where its steps run.
        folder: for what the runner keeps elsewhere.
    """

    def __init__(self, path: Path, repository: Path, folder: Path) -> None:
        self.data: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.repository = repository
        self.added = folder / "env"
        self.summary = folder / "summary.md"
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **{name: str(value) for name, value in self.data["env"].items()},
            "RUNNER_TEMP": str(folder),
            "GITHUB_ENV": str(self.added),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def steps(self) -> dict[str, str]:
        """The shell of each named step, over all jobs."""
        steps = [step for job in self.data["jobs"].values() for step in job["steps"] if "run" in step]
        return {step["name"]: step["run"] for step in steps}

    def run(self, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a step; what it adds to GITHUB_ENV is there for the next."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.steps()[name]]
        done = subprocess.run(
            command,
            cwd=self.repository,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        if self.added.exists():
            self.env |= dict(line.split("=", 1) for line in self.added.read_text().splitlines())
            self.added.unlink()
        return done


@pytest.fixture(scope="session")
def workflow() -> type[Workflow]:
    """Reads a CI workflow and runs its steps."""
    return Workflow
