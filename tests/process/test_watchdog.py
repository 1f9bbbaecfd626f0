"""Requests that go wrong: each returns, with an outcome and a reason."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from pytest_ngram.engine import exits, watchdog
from pytest_ngram.engine.client import Client, CompletionRequest, CompletionResult, Slot
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.watchdog import Progress, guarded
from pytest_ngram.errors import EngineError

Starter = Callable[..., EngineProcess]

REQUEST = CompletionRequest(prompt=(1, 2, 3), n_predict=2, temperature=0, seed=1)


def ask(server: EngineProcess) -> Callable[[], CompletionResult]:
    def request() -> CompletionResult:
        with Client(server.url) as client:
            return client.completion(REQUEST)

    return request


@pytest.mark.parametrize("script", ["hang", "deaf"])
def test_no_progress_is_a_hang(start_faulty: Starter, script: str) -> None:
    """A server without progress for N seconds is ended, though it would answer in an hour: `hang`."""
    server = start_faulty(script)
    with pytest.raises(EngineError, match="no progress for 1 s") as caught:
        guarded(server, ask(server), no_progress_s=1.0, first_poll_s=0.1, poll_s=0.2)
    assert caught.value.outcome == "hang"
    assert not server.alive()
    assert ("never answered" in caught.value.checked[0]) == (script == "deaf")


def test_slow_progress_is_no_hang(start_faulty: Starter) -> None:
    """A request longer than N seconds goes on as long as tokens come, and its progress is told."""
    server = start_faulty("slow")
    seen: list[Progress] = []
    options = {"no_progress_s": 0.8, "first_poll_s": 0.1, "poll_s": 0.2, "on_progress": seen.append}
    result = guarded(server, ask(server), **options)
    assert result.tokens == (1, 2)
    assert len({progress.n_decoded for progress in seen}) > 3


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("segfault", "signal SIGSEGV (11)"),
        ("killed", "signal SIGKILL (9)"),
        ("exit-mid-request", "exit code 1"),
    ],
)
def test_death_in_a_request_is_a_crash(start_faulty: Starter, script: str, code: str) -> None:
    """A server that dies ends its request by that, hours ahead of the watchdog: `crash`, and not by us."""
    server = start_faulty(script)
    with pytest.raises(EngineError, match="ended while running") as caught:
        guarded(server, ask(server), no_progress_s=36_000, first_poll_s=36_000)
    assert caught.value.outcome == "crash"
    assert code in caught.value.checked  # to the letter: "sent by us" would follow


def test_kill_with_oom_evidence_is_oom(start_faulty: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL that we did not send, with a risen OOM counter, is `oom` and says which counter rose."""
    counts = iter(range(100))
    monkeypatch.setattr(exits, "oom_counters", lambda: {"/memory.events oom_kill": next(counts)})
    server = start_faulty("killed")
    with pytest.raises(EngineError, match="want of memory") as caught:
        guarded(server, ask(server))
    assert caught.value.outcome == "oom"
    assert "/memory.events oom_kill went from 0 to 1" in " ".join(caught.value.checked)


def test_refused_request_leaves_the_server(start_faulty: Starter) -> None:
    """An error that the server answers is passed on with its message, and the server lives."""
    server = start_faulty("refuse")
    with pytest.raises(EngineError, match="Prompt contains invalid tokens") as caught:
        guarded(server, ask(server))
    assert caught.value.outcome == "refused"
    assert server.alive()


@pytest.mark.parametrize(("first_poll_s", "polled"), [(36_000.0, False), (0.1, True)])
def test_a_request_is_not_polled_before_its_time(
    start_faulty: Starter, monkeypatch: pytest.MonkeyPatch, first_poll_s: float, polled: bool
) -> None:
    """Nothing asks `/slots` before `first_poll_s`, and a request that ends sooner does not wait for it."""
    server = start_faulty("slow")
    polls: list[str] = []
    ask_slots = Client.slots

    def counted(client: Client) -> tuple[Slot, ...]:
        polls.append("poll")
        return ask_slots(client)

    monkeypatch.setattr(Client, "slots", counted)
    guarded(server, ask(server), no_progress_s=36_000, first_poll_s=first_poll_s, poll_s=0.1)
    assert bool(polls) == polled


def test_stopped_embedded_server_is_a_hang(start_embedded: Starter) -> None:
    """A real server that is frozen (SIGSTOP) in a request is ended, and the request returns as `hang`."""
    server = start_embedded()
    threading.Timer(0.3, os.kill, (server.pid, signal.SIGSTOP)).start()

    def request() -> CompletionResult:
        with Client(server.url) as client:
            long = CompletionRequest(
                prompt=(300,) * 20, n_predict=4000, temperature=0, seed=1, extra={"ignore_eos": True}
            )
            while True:
                client.completion(long)

    with pytest.raises(EngineError, match="no progress") as caught:
        guarded(server, request, no_progress_s=1.0, first_poll_s=0.1, poll_s=0.2)
    assert caught.value.outcome == "hang"


def test_answer_on_its_way_is_no_hang(start_faulty: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has finished counts nothing any more: the moment before its answer is no hang."""
    server = start_faulty("slow")
    idle = (Slot(id=0, is_processing=False, n_decoded=0, n_prompt_tokens_processed=0),)
    monkeypatch.setattr(Client, "slots", lambda client: idle)
    monkeypatch.setattr(watchdog, "_ANSWER_S", 30.0)
    result = guarded(server, ask(server), no_progress_s=2.3, first_poll_s=2.3, poll_s=0.1)
    assert result.tokens == (1, 2)
    assert server.alive()
