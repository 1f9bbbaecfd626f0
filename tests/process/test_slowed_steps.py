"""Slowed for real: a server is stopped inside its verify steps or drafts, and its record says where.

No proxy reaches into a server. But the kernel can stop its process, and the trace says when: a line closes a
step, and what comes next is known. So the stops fall into one kind of step, as if that kind were slower.

Requests that are stopped and such that are not take turns on one server, so that what else the host does
falls on both alike. Time in which the server could run and had no core is taken off, by the kernel's account.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pytest_ngram.engine import log_reader
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.log_reader import TraceStep
from pytest_ngram.engine.select import choose
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import Start
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.models.handbuilt import HandBuiltSpec, rule
from pytest_ngram.record import Round, Telemetry
from pytest_ngram.table import Counts
from pytest_ngram.table.format import encode

# the steps of the deep model take milliseconds, so that stops can hit them
MATRIX = """
version: 1
warmup: the model
hang_after_s: 60
models:
  deep: {generate: &deep {target: 0.95, layers: 16, width: 8192}, flags: -c 512 -t 1}
  small: {generate: {target: 0.7}, draft: {generate: *deep}, flags: -c 512 -t 1}
configs:
  none: {}
  table: {types: [ngram-cache]}
  draft: {types: [draft-simple], flags: --spec-draft-n-max 8}
prompt_sets: {words: {path: words.yaml}}
profiles: {smoke: {blocks: 1, n_predict: 8}}
"""
RULE = rule(HandBuiltSpec())  # it goes by the seed alone, so that both models know the same text
PROMPT = tuple(map(RULE.vocabulary.word_id, RULE.word_classes["en"][:5]))
PARTS = ("draft", "verify", "replay", "plain")
SHARE = 1.0  # of what the part takes of a step: how long a stop is, so that it is twice as slow
LATER = 0.2  # of it: how late a line may be read, and how long after it a stop of a verify step begins
ROUNDS = 8
# How far off, of the stops, each part may be. A busy host lets a server that was stopped run first, and makes
# it wait for that later on: its verifying then has some of what its drafting waited for without a stop.
VERIFY_OFF, DRAFT_OFF = 0.2, 0.35
_LOOK_S = 0.0002


@dataclass(frozen=True)
class Slowing:
    """Stops of `stop_s` seconds, begun `after_s` after those lines of the trace that are `meant`.

    A line that is read more than `late_s` after the soonest is let pass: the part may be over.
    """

    stop_s: float
    late_s: float
    after_s: float = 0.0
    meant: Callable[[TraceStep], bool] = lambda line: True


@dataclass(frozen=True)
class Asked:
    """One request: its round, how long the server was stopped, and the share of the rest in which it ran."""

    round: Round
    stopped_ms: float
    ran: float

    @property
    def told(self) -> Telemetry:
        assert self.round.telemetry is not None
        assert self.round.telemetry.unread is None
        return self.round.telemetry

    def ms(self, part: str, *, stopped: bool = False) -> float:
        """What the request spent on a part; of one that was `stopped`, without the stops. Waits are off."""
        assert self.told.cost is not None
        ms: float = getattr(self.told.cost, f"{part}_ms") * ((self.round.predicted_n or 0) - 1)
        return (ms - self.stopped_ms * stopped) * self.ran


class Stopper:
    """Follows a server's log and stops its process at lines of the trace, as long as it is entered.

    Args:
        server: our own child, so that the kernel tells us when it has really stopped.
        slowing: where, and for how long.
        lines: that each request will have. After the last of them nothing is left to slow.
    """

    def __init__(self, server: Server, slowing: Slowing, lines: int) -> None:
        self._pid, self._log_path = server.engine.pid, server.engine.log_path
        self._slowing, self._lines = slowing, lines
        self._soonest_s = float("inf")  # from a line's own stamp until it is read; their clocks differ
        self.stops_ms: list[float] = []

    def __enter__(self) -> Stopper:
        assert self._log_path is not None
        self._log = self._log_path.open("rb")
        self._log.seek(0, os.SEEK_END)
        self._over, self._thread = threading.Event(), threading.Thread(target=self._follow)
        self.stops_ms = []
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        self._log.close()

    def _follow(self) -> None:
        rest, seen = b"", 0
        while not self._over.is_set():
            *lines, rest = (rest + self._log.read()).split(b"\n")
            steps = [step for line in lines if (step := log_reader.trace_step(line.decode())) is not None]
            seen += len(steps)
            if steps and self._in_time(steps[-1]) and seen < self._lines and self._slowing.meant(steps[-1]):
                time.sleep(self._slowing.after_s)
                self._stop()
            else:
                time.sleep(_LOOK_S)

    def _in_time(self, step: TraceStep) -> bool:
        assert step.at_ms is not None
        after_s = time.monotonic() - step.at_ms / 1000
        self._soonest_s = min(self._soonest_s, after_s)
        return after_s - self._soonest_s <= self._slowing.late_s

    def _stop(self) -> None:
        """Stop it; what counts is the time from when it stands, which is later where it waits for a core."""
        assert self._pid is not None
        os.kill(self._pid, signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            begin_s = time.monotonic()
            time.sleep(self._slowing.stop_s)
            self.stops_ms.append((time.monotonic() - begin_s) * 1000)
        finally:
            os.kill(self._pid, signal.SIGCONT)


def computing_ns(server: Server) -> tuple[int, int]:
    """How long the thread that computes has run, and how long it was ready to and had no core."""
    times = (path.read_text().split() for path in Path(f"/proc/{server.engine.pid}/task").glob("*/schedstat"))
    return max((int(ran), int(waited)) for ran, waited, _slices in times)


def ask(server: Server, request: CompletionRequest, stopper: Stopper | None = None) -> Asked:
    before = computing_ns(server)
    with stopper or nullcontext():
        one = measure(server, request, hang_after_s=60)
    ran, waited = (now - then for now, then in zip(computing_ns(server), before, strict=True))
    return Asked(one, sum(stopper.stops_ms) if stopper else 0.0, ran / (ran + waited))


def in_turn(
    server: Server, request: CompletionRequest, slowing: Slowing, lines: int
) -> tuple[list[Asked], list[Asked]]:
    """Ask slowed and untouched in turn, each of them first every second time; return both."""
    slowed, untouched, stopper = [], [], Stopper(server, slowing, lines)
    for number in range(ROUNDS):
        for is_slowed in (True, False) if number % 2 else (False, True):
            if is_slowed:
                slowed.append(ask(server, request, stopper))
            else:
                untouched.append(ask(server, request))
    return slowed, untouched


def assert_moved_alone(part: str, slowed: Sequence[Asked], untouched: Sequence[Asked], *, off: float) -> None:
    """The part rose by the stops, no other moved with them, and the counts are the same."""
    stopped_ms = median(one.stopped_ms for one in slowed)
    assert stopped_ms > SHARE / 4 * median(one.ms(part) for one in untouched)
    moved = {}
    for name in PARTS:
        now_ms = median(one.ms(name, stopped=name == part) for one in slowed)
        moved[name] = (now_ms - median(one.ms(name) for one in untouched)) / stopped_ms
    assert max(map(abs, moved.values())) < off, f"off by, of {stopped_ms:.1f} ms of stops: {moved}"
    assert len({counts(one) for one in (*slowed, *untouched)}) == 1
    assert all(one.told.cost is not None and one.told.cost.unexplained is None for one in slowed)


def counts(one: Asked) -> tuple[Any, ...]:
    told, round_ = one.told, one.round
    shares = (told.coverage, told.acceptance_per_pos, told.tokens_per_step)
    return (round_.tokens, round_.drafted, round_.accepted, round_.verify_steps, round_.replays, *shares)


def serving(model: str, config: str, table: Path | None, folder: Path, cache: Path) -> Server:
    matrix = decode_matrix(MATRIX, "m.yaml")
    servers = Servers(
        matrix, Models(matrix, folder, cache), Factory(choose(None), cache_dir=cache), logs=folder
    )
    return servers.serve(Start(model, config, 0.0, 1, 0), table)


def asking_for(n_predict: int) -> CompletionRequest:
    return CompletionRequest(prompt=PROMPT, n_predict=n_predict, temperature=0.0, seed=1)


def wrong_table(path: Path, n: int) -> Path:
    """A table that drafts one wrong token, again and again, at each of the n tokens to come."""
    text = (*PROMPT, *RULE.continuation(PROMPT, n))
    wrong = next(token for token in range(len(RULE.vocabulary)) if token not in text)
    rows = {(a, b, wrong) for a, b in itertools.pairwise(text)} | {(b, wrong, wrong) for b in text}
    columns = zip(*sorted(rows | {(wrong, wrong, wrong)}), strict=True)
    key_a, key_b, third = (np.array(column, np.int32) for column in columns)
    path.write_bytes(encode(Counts(key_a, key_b, third, np.full(len(key_a), 100, np.int64))))
    return path


def test_a_slowed_verify_is_verify_cost(session_cache: Path, tmp_path: Path) -> None:
    """Stopped while it verifies, a server shows that as verify cost alone: no draft or replay is dearer.

    Every draft is wrong, so verify steps of up to 9 tokens and replays take turns; looking up takes no time.
    """
    request = asking_for(24)
    table = wrong_table(tmp_path / "wrong.lcs", 2 * request.n_predict)
    server = serving("deep", "table", table, tmp_path, session_cache)
    try:
        first = ask(server, request)
        verify, replays = first.round.verify_steps or 0, first.round.replays or 0
        assert min(verify, replays) > request.n_predict / 3
        step_s = first.ms("verify") / verify / 1000
        slowing = Slowing(SHARE * step_s, LATER * step_s, LATER * step_s, lambda line: not line.restored)
        slowed, untouched = in_turn(server, request, slowing, verify + replays)
    finally:
        server.stop()
    assert_moved_alone("verify", slowed, untouched, off=VERIFY_OFF)


def test_a_slowed_drafter_is_draft_cost(session_cache: Path, tmp_path: Path) -> None:
    """Stopped while its draft model drafts, a server shows that as draft cost alone.

    The draft model is the deep one, so that drafting, with which each step begins, takes most of the step.
    """
    request = asking_for(37)
    server = serving("small", "draft", None, tmp_path, session_cache)
    try:
        first = ask(server, request)
        verify = first.round.verify_steps or 0
        assert first.round.replays == 0
        assert first.ms("draft") > first.ms("verify")
        draft_s = first.ms("draft") / verify / 1000
        slowing = Slowing(SHARE * draft_s, LATER * draft_s)
        slowed, untouched = in_turn(server, request, slowing, verify)
    finally:
        server.stop()
    assert_moved_alone("draft", slowed, untouched, off=DRAFT_OFF)
