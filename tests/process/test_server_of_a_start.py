"""The server of a start outlives what happens to its process or, at a URL, to somebody else's."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_ngram.engine import process, url
from pytest_ngram.engine.client import Client, CompletionRequest, CompletionResult
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.errors import EngineError
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Kind, Server

Starter = Callable[..., EngineProcess]
Asker = Callable[[str, int], threading.Thread]

# Tokens of a request that is still running when somebody looks, on a busy host too.
LONG = 3000
REQUEST = CompletionRequest(prompt=(300, 301), n_predict=8, temperature=0, seed=1, extra={"ignore_eos": True})


def served(launch: Callable[[], RunningEngine], said: list[str], *, stateful: bool = False) -> Server:
    """A server without speculation whose warnings go to `said`, with `warmed up` for each warm-up."""

    def warm_up(server: Server) -> int:
        said.append("warmed up")
        return len(said)

    return Server(
        Kind(
            stateful=stateful,
            speculative=False,
            prompt_decodes=lambda prompt_n: 1,
            launch=launch,
            warm_up=warm_up,
            warn=said.append,
        )
    )


def again(server: EngineProcess, tmp_path: Path) -> EngineProcess:
    """Start the same server at the same address."""
    argv = [*server.argv[: server.argv.index("--port")], "--port", str(urlsplit(server.url).port)]
    return process.start(argv, log_path=tmp_path / "again.log")


def test_tokens_of_somebody_else_are_told(start_embedded: Starter) -> None:
    """A server at a URL that generates for others between two cells is told of, with how much."""
    theirs = start_embedded()
    said: list[str] = []
    ours = served(lambda: url.connect(theirs.url), said)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    assert said == ["warmed up"]
    ours.client.completion(REQUEST)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    assert said[1:] == [f"{theirs.url}: 8 tokens were generated for somebody else between two cells"]


@pytest.fixture
def somebody() -> Iterator[Asker]:
    """Ask a server in a thread of its own; every answer has to come."""
    threads: list[threading.Thread] = []
    ended: list[object] = []

    def ask(url: str, n_predict: int) -> threading.Thread:
        request = CompletionRequest(
            prompt=(302, 303, 304), n_predict=n_predict, temperature=0, seed=1, extra={"ignore_eos": True}
        )

        def run() -> None:
            with Client(url) as client:
                ended.append(client.completion(request))

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return threads[-1]

    yield ask
    for thread in threads:
        thread.join()
    assert len(ended) == len(threads)


def busy(url: str, metric: str = "requests_processing") -> bool:
    with Client(url) as client:
        return client.metrics()[f"llamacpp:{metric}"] > 0


def while_measured(
    ours: Server, monkeypatch: pytest.MonkeyPatch, when: str, ask: Callable[[], object]
) -> None:
    """Let somebody ask right before or after the next request, between the two readings of /metrics."""
    completion = ours.client.completion

    def both(request: CompletionRequest) -> CompletionResult:
        if when == "before":
            ask()
        result = completion(request)
        if when == "after":
            ask()
        return result

    monkeypatch.setattr(ours.client, "completion", both)


@pytest.mark.parametrize("spec", ["", "draft-mtp"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_request_of_somebody_else_is_not_booked_as_ours(
    start_embedded: Starter, somebody: Asker, monkeypatch: pytest.MonkeyPatch, spec: str, when: str
) -> None:
    """While somebody else asks too, what /metrics counted is of both: the cell is refused, and says so."""
    theirs = start_embedded(spec=spec)
    said: list[str] = []
    ours = served(lambda: url.connect(theirs.url), said)
    with monkeypatch.context() as patch:
        while_measured(ours, patch, when, lambda: somebody(theirs.url, 64).join())
        with pytest.raises(EngineError, match="the server answered somebody else") as caught:
            measure(ours.ready(), REQUEST, hang_after_s=30)
    assert caught.value.outcome == "refused"
    assert "72 tokens were generated, 8 of them for this cell" in caught.value.checked
    assert measure(ours.ready(), REQUEST, hang_after_s=30).predicted_n == 8
    assert said == ["warmed up"]


def test_somebody_who_still_waits_is_seen(
    start_embedded: Starter,
    somebody: Asker,
    wait_for: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is not yet counted as generated stands in the number of requests that are processed."""
    theirs = start_embedded()
    ours = served(lambda: url.connect(theirs.url), [])

    def ask() -> None:
        somebody(theirs.url, LONG)
        wait_for(lambda: busy(theirs.url))

    while_measured(ours, monkeypatch, "after", ask)
    with pytest.raises(EngineError, match="the server answered somebody else") as caught:
        measure(ours.ready(), REQUEST, hang_after_s=30)
    assert "when it had answered, it had 1 more to answer" in caught.value.checked


@pytest.mark.parametrize("when", ["between", "before", "after"])
def test_what_somebody_else_asked_is_state(
    start_embedded: Starter, somebody: Asker, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A config that drafts from earlier requests has learned from theirs: its start is measured again."""
    theirs = start_embedded(spec="ngram-mod")
    ours = served(lambda: url.connect(theirs.url), [], stateful=True)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    if when == "between":
        somebody(theirs.url, 64).join()
    else:
        while_measured(ours, monkeypatch, when, lambda: somebody(theirs.url, 64).join())
    for _ in range(2):
        with pytest.raises(EngineError, match=r"somebody else.*learned") as caught:
            measure(ours.ready(), REQUEST, hang_after_s=30)
        assert caught.value.outcome == "refused"
        assert "--ngram-resume" in caught.value.fix


def test_rest_of_a_request_that_was_cut_is_our_own(start_embedded: Starter) -> None:
    """What a server at a URL generates of a request that we gave up is not laid to somebody else."""
    theirs = start_embedded()
    said: list[str] = []
    ours = served(lambda: url.connect(theirs.url), said)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    os.kill(theirs.pid, signal.SIGSTOP)
    threading.Timer(3.0, os.kill, (theirs.pid, signal.SIGCONT)).start()
    with pytest.raises(EngineError, match="no progress") as caught, ours.failing_fast():
        guarded(ours.engine, lambda: ours.client.completion(REQUEST), no_progress_s=1, cut=ours.client.cut)
    assert caught.value.outcome == "hang"
    for _ in range(2):
        measure(ours.ready(), REQUEST, hang_after_s=30)
    assert said == ["warmed up"]


def test_url_that_was_started_anew_is_warmed_up_again(start_embedded: Starter, tmp_path: Path) -> None:
    """Another server at the same URL is looked at and warmed up, and the user is told."""
    theirs = start_embedded()
    said: list[str] = []
    ours = served(lambda: url.connect(theirs.url), said)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    theirs.stop()
    with pytest.raises(EngineError, match="does not answer any more"):
        ours.ready()
    with again(theirs, tmp_path):
        measure(ours.ready(), REQUEST, hang_after_s=30)
    assert said == [
        "warmed up",
        f"between two cells the server at {theirs.url} was started anew",
        "warmed up",
    ]


def test_state_that_is_lost_is_refused_and_told_once(start_embedded: Starter, tmp_path: Path) -> None:
    """A config that drafts from earlier requests is not gone on with on another server."""
    theirs = start_embedded()
    said: list[str] = []
    ours = served(lambda: url.connect(theirs.url), said, stateful=True)
    measure(ours.ready(), REQUEST, hang_after_s=30)
    theirs.stop()
    with again(theirs, tmp_path):
        for _ in range(2):
            with pytest.raises(EngineError, match="measure the whole start again") as caught:
                ours.ready()
            assert caught.value.outcome == "refused"
    assert len(said) == 2


def test_death_between_two_cells_is_told_and_mended(
    start_embedded: Starter, wait_for: Callable[..., None]
) -> None:
    """A server of ours that is killed between two cells is told of, and replaced."""
    said: list[str] = []
    ours = served(start_embedded, said)
    os.kill(ours.engine.pid or 0, signal.SIGKILL)
    wait_for(lambda: not ours.engine.alive())
    measure(ours.ready(), REQUEST, hang_after_s=30)
    assert [text.splitlines()[0] for text in said] == [
        "warmed up",
        "between two cells the server ended while running: it was ended by a signal",
        "warmed up",
    ]


def test_what_failed_a_cell_is_not_told_again(start_embedded: Starter) -> None:
    """A hang is the outcome of its cell, with the log; the next cell has a new server and no second word."""
    said: list[str] = []
    ours = served(start_embedded, said)
    os.kill(ours.engine.pid or 0, signal.SIGSTOP)
    with pytest.raises(EngineError, match="did not answer") as caught, ours.failing_fast():
        measure(ours.ready(), REQUEST, hang_after_s=0.5)
    assert caught.value.outcome == "hang"
    assert caught.value.log_tail
    measure(ours.ready(), REQUEST, hang_after_s=30)
    assert said == ["warmed up", "warmed up"]


def test_killed_while_it_is_asked_is_no_deed_of_ours(start_embedded: Starter) -> None:
    """A connection that breaks because the server is killed is explained by that signal, not by us."""
    said: list[str] = []
    ours = served(start_embedded, said)
    ours.client.metrics()
    os.kill(ours.engine.pid or 0, signal.SIGKILL)
    with pytest.raises(EngineError, match="it was ended by a signal") as caught, ours.failing_fast():
        ours.client.metrics()
    assert caught.value.outcome == "crash"
    assert "sent by us" not in str(caught.value)
