"""Policies replayed over the streams of a run, several at a time."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from pytest_ngram.drafting.cache import BEST, WALK, WORST
from pytest_ngram.drafting.counts import Counts
from pytest_ngram.drafting.policy import Policy
from pytest_ngram.drafting.slot import Replayed, Request, Slot
from pytest_ngram.drafting.tally import Tally, tally

_CHUNK = 4  # tasks that a process takes at a time, and ends before it can be stopped


@dataclass(frozen=True, eq=False)
class Stream:
    """The requests of one server, as every policy gets them.

    Args:
        name: model and temperature.
        warmup: what the server saw first; None where it is not recorded.
        requests: the prompts' ids and requests, in order.
        restores: whether a rejection restores a checkpoint.
        left_out: how many requests of the server are not known.
    """

    name: str
    warmup: Request | None
    requests: tuple[tuple[str, Request], ...]
    restores: bool
    left_out: int = 0

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts' ids, in order."""
        return tuple(prompt for prompt, _request in self.requests)

    @property
    def model(self) -> str:
        """The model's id."""
        return self.name.rpartition("/")[0]

    @property
    def generated(self) -> int:
        """Tokens of all answers."""
        return sum(request.generated for _prompt, request in self.requests)


@dataclass(frozen=True, eq=False)
class Tried:
    """A policy to replay, with the static table of its `ngram-cache` and that table's name."""

    policy: Policy
    static: Counts | None = None
    table: str | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """A policy over a stream: a tally for each prompt.

    `table` is the name of the static table that `ngram-cache` had. `accepted_by_luck`: where there were ties,
    what would be accepted in all if each went to the token that is wrong, and if each went to the one that is
    right.
    """

    policy: Policy
    stream: str
    by_prompt: tuple[tuple[str, Tally], ...]
    table: str | None = None
    accepted_by_luck: tuple[int, int] | None = None

    def of(self, prompts: Iterable[str] | None = None) -> list[Tally]:
        """Return the tallies of these prompts, or of all."""
        wanted = None if prompts is None else set(prompts)
        return [each for prompt, each in self.by_prompt if wanted is None or prompt in wanted]


def run(policy: Policy, stream: Stream, static: Counts | None = None, *, luck: int = WALK) -> Result:
    """Replay one policy over a stream, on a slot of its own."""
    requests = [request for _prompt, request in stream.requests]
    all_of = [*([stream.warmup] if stream.warmup is not None else []), *requests]
    slot = Slot(
        policy,
        longest=max(len(request.tokens) for request in all_of),
        total=sum(len(request.tokens) for request in all_of),
        restores=stream.restores,
        static=static,
        luck=luck,
    )
    if stream.warmup is not None:
        slot.replay(stream.warmup)
    by_prompt: dict[str, list[Replayed]] = {}
    for prompt, request in stream.requests:
        by_prompt.setdefault(prompt, []).append(slot.replay(request))
    return Result(policy, stream.name, tuple((prompt, tally(found)) for prompt, found in by_prompt.items()))


def run_with_luck(tried: Tried, stream: Stream) -> Result:
    """Replay as `run`, and where there were ties once more each with bad and good luck."""
    policy, static = tried.policy, tried.static
    found = replace(run(policy, stream, static), table=tried.table)
    if not any(each.ties for each in found.of()):
        return found
    worst, best = (
        sum(each.accepted for each in run(policy, stream, static, luck=luck).of()) for luck in (WORST, BEST)
    )
    return replace(found, accepted_by_luck=(worst, best))


def sweep(
    policies: Sequence[Policy],
    streams: Sequence[Stream],
    static: Counts | None = None,
    *,
    jobs: int | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """Replay every policy over every stream, in as many processes as there are cores.

    Args:
        policies, streams: each with each.
        static: the table of `ngram-cache`.
        jobs: how many processes; 1 stays in this one.
        on_done: called with how many are done, of how many.

    Returns:
        By policy, then by stream, in the order given.
    """
    tasks = [(policy, stream) for policy in policies for stream in streams]
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(tasks))
    if jobs <= 1:
        found = []
        for policy, stream in tasks:
            found.append(run(policy, stream, static))
            on_done(len(found), len(tasks))
        return found
    numbered = [(policy, streams.index(stream)) for policy, stream in tasks]
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_enter, initargs=(tuple(streams), static)
    ) as pool:
        with _deaf_children():
            results = pool.map(
                _run_numbered, numbered, chunksize=max(1, min(_CHUNK, len(tasks) // (4 * jobs)))
            )
        found = []
        try:
            for result in results:
                found.append(result)
                on_done(len(found), len(tasks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return found


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started inside never hear Ctrl-C: the one that has them ends them, without a word.

    A terminal sends it to all of them, and each would print where it was.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_held: tuple[Sequence[Stream], Counts | None] = ((), None)


def _enter(streams: Sequence[Stream], static: Counts | None) -> None:
    """What all tasks of a process share is handed over once."""
    global _held  # noqa: PLW0603 - a pool's initializer has no other way to leave something
    _held = (streams, static)


def _run_numbered(task: tuple[Policy, int]) -> Result:
    streams, static = _held
    return run(task[0], streams[task[1]], static)
