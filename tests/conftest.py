"""What all rings of tests share: a cache folder of the session, and waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pytest_ngram.options import CACHE_VARIABLE

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
