"""A real server beside a real second load: who took the cores, and which cells are contended.

The host of these tests may be busy with other things. So what others took is held against the clocks of all
other processes, which another library reads, with a second load of ours and without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median

import psutil
import pytest

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.measure.host import LEAST_S, Probe, this_machine
from pytest_ngram.record import Host
from pytest_ngram.verdict.contention import OTHERS, Bounds, marks

Starter = Callable[..., EngineProcess]
CORES = psutil.cpu_count() or 1
SECONDS = 1.0
REQUEST = CompletionRequest(
    prompt=(300, 301), n_predict=200, temperature=0, seed=1, extra={"ignore_eos": True}
)
SPIN = "import sys; print('spins', flush=True)\nwhile True: pass"


@contextmanager
def spinner() -> Iterator[psutil.Process]:
    """A process that wants a core of its own as long as it lives."""
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield psutil.Process(process.pid)
        finally:
            process.kill()


class Asked:
    """A server that is asked again and again for a second."""

    def __init__(self, server: EngineProcess) -> None:
        self._client = Client(server.url)
        self.pid = server.pid
        self._probe = Probe(server.pid, *this_machine())

    def host(self) -> Host:
        """The host meanwhile."""
        before = self._probe.temperature()
        _, span = self._probe.watch(self._ask)
        return self._probe.host(span, before)

    def _ask(self) -> None:
        end_s = time.monotonic() + SECONDS
        while time.monotonic() < end_s:
            self._client.completion(REQUEST)


@pytest.fixture
def asked(start_embedded: Starter) -> Asked:
    return Asked(start_embedded())


def others_cores(host: Host) -> float:
    assert host.others_busy is not None, host.absent
    return host.others_busy * CORES


def test_beside_a_second_load_a_cell_is_contended(asked: Asked) -> None:
    """With a loop on one core others took more than 5 % of the cores, and the reason says so."""
    with spinner():
        host = asked.host()
    found = marks(host, Bounds())
    assert found.contended, host
    assert any("others took" in reason for reason in found.contended), found
    assert host.server_busy is not None
    assert host.server_busy > OTHERS  # the server's own work is told apart


@pytest.mark.parametrize("load", [nullcontext, spinner], ids=["no load of ours", "a second load"])
def test_others_are_all_other_processes(
    asked: Asked, load: Callable[[], AbstractContextManager[object]]
) -> None:
    """Others took what the clocks of all other processes add up to: the server's work is never theirs.

    So where nothing else runs they took nothing, and no cell is contended; what else this host does meanwhile
    counts on both sides. Where the other reading says that it was quiet, the cells have to say so too.
    """
    below, above, quiet = [], [], []
    for _ in range(5):
        with load():
            before = _by_process(asked.pid)
            host = asked.host()
            after = _by_process(asked.pid)
        seconds, stolen = host.seconds or 1.0, (host.steal or 0.0) * CORES
        least, most = (sum(_grown(before, after, ended=ended)) / seconds + stolen for ended in (False, True))
        below.append(others_cores(host) - least)
        above.append(others_cores(host) - most)
        if most / CORES < OTHERS / 2:
            quiet.append(marks(host, Bounds(pressure=100.0)).contended)
    assert median(below) > -0.2, below
    assert median(above) < 0.2, above
    assert sum(map(bool, quiet)) <= len(quiet) // 2, quiet


Times = dict[int, tuple[float, float]]


def _by_process(server_pid: int) -> Times:
    """Seconds of every process but the server and this one; then of its children that have ended."""
    found = {}
    for process in psutil.process_iter(["cpu_times"]):
        times = process.info["cpu_times"]
        if process.pid not in (server_pid, os.getpid()) and times is not None:
            found[process.pid] = (times.user + times.system, times.children_user + times.children_system)
    return found


def _grown(before: Times, after: Times, *, ended: bool) -> Iterator[float]:
    """What each process took meanwhile.

    What ended meanwhile is missing from the first figure; the second has it, but with all of its life.
    """
    for pid, (own, children) in after.items():
        own_before, children_before = before.get(pid, (0.0, 0.0))
        yield own - own_before + (children - children_before if ended else 0.0)


def test_looking_costs_little(asked: Asked) -> None:
    """Ten samples a second, or fewer, at no more than 1 % of a core."""
    hosts = [asked.host() for _ in range(3)]
    for host in hosts:
        assert host.samples
        assert host.seconds is not None
        assert host.seconds > LEAST_S
        assert host.samples <= host.seconds / 0.1 + 1
    assert median(host.probe_share or 0.0 for host in hosts) <= 0.01, hosts
