"""Reads llama-server's log lines into counts. Pure functions over lines.

What is read, as builds b11063 to b11549 write it:

- `print_timing` lines (`-lv 3`) and `acc per pos` (`-lv 4`), one set per request;
- `statistics <type>` lines (`-lv 4`), cumulative over the server's life;
- `accepted k/n draft tokens` (`LLAMA_TRACE=1`, `-lv 3`), one per verify or replay step, none for plain steps.

Worked example of a replay. A draft of 12 is refused after 2 tokens and the state cannot be rolled back, so
the server restores a checkpoint and decodes the 2 accepted and the 1 corrected token again as a draft of 3:

    accepted  2/12 draft tokens (restore checkpoint)      verify: drafted 12, accepted 2
    accepted  3/ 3 draft tokens                           replay: no new draft, one more decode

A line that is of one of these kinds but is written in another way raises `EngineError`, which names the line:
passed over, it would count as nothing drafted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pytest_ngram.errors import EngineError

# minutes.seconds.milliseconds.microseconds since the server began; absent with `--no-log-timestamps`
_STAMP = re.compile(r"^(?P<min>\d+)\.(?P<s>\d\d)\.(?P<ms>\d{3})\.(?P<us>\d{3}) ")
_UNSTAMPED = re.compile(r"^(?:[A-Z] )?(?:id|slot|spec|statistics)\b")
_BEGINS = re.compile(r"\| new prompt, ")
_TASK = re.compile(r"\| task (?P<task>-?\d+) \|")
_TRACE = re.compile(
    r"accepted +(?P<accepted>\d+)/ *(?P<drafted>\d+) draft tokens(?P<restore> \(restore checkpoint\))?\s*$"
)
_ACCEPTANCE = re.compile(
    r"draft acceptance = +(?P<rate>[\d.]+) \( *(?P<accepted>\d+) accepted / *(?P<drafted>\d+) generated\)"
    r"(?:, mean len = +(?P<mean>[\d.]+))?"
)
# `-lv 5` repeats it so; that is known, and no step
_TRACE_AGAIN = re.compile(r"accepted +\d+/ *\d+ draft tokens, new n_tokens")
_PER_POS = re.compile(r"acc per pos = \((?P<rates>[^)]*)\)")
_TIMING = re.compile(r"(?P<what>prompt eval|eval) time = +(?P<ms>[\d.]+) ms / +(?P<tokens>\d+) tokens")
_STATISTICS = re.compile(
    r"statistics +(?P<type>[a-z0-9-]+): #calls\(b,g,a\) = +(?P<begin>\d+) +(?P<gen>\d+) +(?P<acc>\d+), "
    r"#gen drafts = +(?P<gen_drafts>\d+), #acc drafts = +(?P<acc_drafts>\d+), "
    r"#gen tokens = +(?P<gen_tokens>\d+), #acc tokens = +(?P<acc_tokens>\d+)"
    r"(?:, #mean acc len = +(?P<mean>[\d.]+))?(?:, #acc rate/pos = \((?P<rates>[^)]*)\))?"
    r"(?:, dur\(b,g,a\) = +(?P<dur>[\d., ]+) ms)?"
)
# how a task's line of each kind is known even where the rest of it cannot be read
_KINDS = (
    ("a trace line", re.compile(r"accepted\b.*\bdraft tokens|\(restore checkpoint\)"), _TRACE),
    ("a draft acceptance line", re.compile(r"draft acceptance\b"), _ACCEPTANCE),
    ("an acceptance by position line", re.compile(r"\bacc per pos\b"), _PER_POS),
    ("a timing line", re.compile(r"\beval time\b"), _TIMING),
)
_A_STATISTICS = re.compile(r"\bstatistics +[a-z0-9-]+:")


@dataclass(frozen=True)
class TraceStep:
    """One `accepted k/n draft tokens` line. `restored`: the state was restored and a replay follows.

    `at_ms` is the line's time stamp, since the server began; None where lines have none.
    """

    accepted: int
    drafted: int
    restored: bool
    at_ms: float | None = None


@dataclass(frozen=True)
class Acceptance:
    """One `draft acceptance` line: tokens of one request. `mean_len` counts verify steps only."""

    accepted: int
    drafted: int
    rate: float
    mean_len: float | None


@dataclass(frozen=True)
class Timing:
    """One `prompt eval time` or `eval time` line. `what` is `prompt` or `predicted`."""

    what: str
    ms: float
    tokens: int


@dataclass(frozen=True)
class TypeStatistics:
    """One `statistics` line of a drafting type, cumulative since the server began.

    `calls` counts calls of begin, generate, accept; tokens accepted count those of replays again. The last
    fields are None where the line lacks them (nothing drafted). `dur_ms` (begin, generate, accept) leaves out
    the catch-up decode of MTP.
    """

    type: str
    calls: tuple[int, int, int]
    gen_drafts: int
    acc_drafts: int
    gen_tokens: int
    acc_tokens: int
    mean_acc_len: float | None
    rate_per_pos: tuple[float, ...] | None
    dur_ms: tuple[float, float, float] | None


@dataclass
class RequestLog:
    """What the log says of one request, by its task number.

    `verify_steps`, `replays`, `drafted`, `accepted` and `accepted_per_pos` come from trace lines and are 0
    and empty without them; `acceptance` and `rate_per_pos` from the closing lines; `statistics` are
    cumulative. `begun_ms` is the time stamp of the line with which the prompt begins, `closed_ms` that of the
    first closing line, which follows the last token.
    """

    task: int
    verify_steps: int = 0
    replays: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)
    timings: dict[str, Timing] = field(default_factory=dict)
    acceptance: Acceptance | None = None
    rate_per_pos: tuple[float, ...] | None = None
    statistics: dict[str, TypeStatistics] = field(default_factory=dict)
    steps: list[TraceStep] = field(default_factory=list)
    begun_ms: float | None = None
    closed_ms: float | None = None


def stamp_ms(line: str) -> float | None:
    """Return a line's time stamp, ms since the server began; None for a line without one.

    Raises:
        EngineError: the line begins with something else than a stamp of this form or no stamp at all.
    """
    found = _STAMP.match(line)
    if found is not None:
        seconds = int(found["min"]) * 60 + int(found["s"])
        return seconds * 1000 + int(found["ms"]) + int(found["us"]) / 1000
    if _UNSTAMPED.match(line):
        return None
    raise _unknown("the time stamp", line)


def _unknown(what: str, line: str) -> EngineError:
    return EngineError(
        f"the server's log has {what} in a form that this version cannot read",
        outcome="refused",
        checked=[f"line: {line.strip()[:300]}"],
        fix="this build of llama.cpp changed its log; use one that the documentation lists",
    )


def check_known(line: str) -> None:
    """Raise `EngineError` for a line that is of a kind read here and cannot be read."""
    if _TASK.search(line) is not None:
        for what, kind, form in _KINDS:
            if kind.search(line) and not form.search(line) and not _TRACE_AGAIN.search(line):
                raise _unknown(what, line)
    if _A_STATISTICS.search(line) and not _STATISTICS.search(line):
        raise _unknown("a statistics line", line)


def trace_step(line: str) -> TraceStep | None:
    """Read an `accepted k/n draft tokens` line; None for any other."""
    found = _TRACE.search(line)
    if found is None:
        return None
    at_ms = stamp_ms(line) if _TASK.search(line) else None
    return TraceStep(int(found["accepted"]), int(found["drafted"]), found["restore"] is not None, at_ms)


def acceptance(line: str) -> Acceptance | None:
    """Read a `draft acceptance` line; None for any other."""
    found = _ACCEPTANCE.search(line)
    if found is None:
        return None
    mean = float(found["mean"]) if found["mean"] else None
    return Acceptance(int(found["accepted"]), int(found["drafted"]), float(found["rate"]), mean)


def rates_per_position(line: str) -> tuple[float, ...] | None:
    """Read an `acc per pos` line: accepted at each position ÷ verify steps; None for any other."""
    found = _PER_POS.search(line)
    return _numbers(found["rates"]) if found else None


def timing(line: str) -> Timing | None:
    """Read a `prompt eval time` or `eval time` line; None for any other."""
    found = _TIMING.search(line)
    if found is None:
        return None
    what = "prompt" if found["what"] == "prompt eval" else "predicted"
    return Timing(what, float(found["ms"]), int(found["tokens"]))


def statistics(line: str) -> TypeStatistics | None:
    """Read a `statistics` line; None for any other."""
    found = _STATISTICS.search(line)
    if found is None:
        return None
    durations = _numbers(found["dur"]) if found["dur"] else ()
    return TypeStatistics(
        type=found["type"],
        calls=(int(found["begin"]), int(found["gen"]), int(found["acc"])),
        gen_drafts=int(found["gen_drafts"]),
        acc_drafts=int(found["acc_drafts"]),
        gen_tokens=int(found["gen_tokens"]),
        acc_tokens=int(found["acc_tokens"]),
        mean_acc_len=float(found["mean"]) if found["mean"] else None,
        rate_per_pos=None if found["rates"] is None else _numbers(found["rates"]),
        dur_ms=(durations[0], durations[1], durations[2]) if len(durations) == 3 else None,
    )


def requests(lines: Iterable[str]) -> list[RequestLog]:
    """Gather the lines of each request, in the order in which the requests began.

    `statistics` lines carry no task number; they follow the closing lines of the request that they belong to.

    Raises:
        EngineError: a line is of a kind that is read here, and is written in a way that is not known.
    """
    by_task: dict[int, RequestLog] = {}
    current: RequestLog | None = None
    for line in lines:
        check_known(line)
        found = _TASK.search(line)
        if found is not None and int(found["task"]) >= 0 and _speaks(line):
            current = by_task.setdefault(int(found["task"]), RequestLog(int(found["task"])))
        if current is not None:
            _take(current, line, of_task=found is not None)
    for log in by_task.values():
        _count(log)
    return list(by_task.values())


def _speaks(line: str) -> bool:
    """Whether the line is of a kind that is read here; a request's other lines make no entry."""
    return bool(
        _BEGINS.search(line) or _TRACE.search(line) or _TIMING.search(line) or _ACCEPTANCE.search(line)
    )


def _take(log: RequestLog, line: str, *, of_task: bool) -> None:
    if not of_task:
        cumulative = statistics(line)
        if cumulative is not None:
            log.statistics[cumulative.type] = cumulative
        return
    step, closing, clock, rates = trace_step(line), acceptance(line), timing(line), rates_per_position(line)
    if step is not None:
        log.steps.append(step)
    log.acceptance = closing or log.acceptance
    log.rate_per_pos = rates if rates is not None else log.rate_per_pos
    if clock is not None:
        log.closed_ms = log.closed_ms if log.timings else stamp_ms(line)
        log.timings[clock.what] = clock
    if _BEGINS.search(line):
        log.begun_ms = stamp_ms(line)


def _count(log: RequestLog) -> None:
    for chain in _drafts(log.steps):
        log.verify_steps += 1
        log.replays += len(chain) - 1
        log.drafted += chain[0].drafted
        # the last replay confirms what was accepted and the correction, which the server does not count
        accepted = chain[0].accepted if len(chain) == 1 else max(chain[-1].accepted - 1, 0)
        log.accepted += accepted
        log.accepted_per_pos += [0] * (accepted - len(log.accepted_per_pos))
        for position in range(accepted):
            log.accepted_per_pos[position] += 1


def _drafts(steps: Iterable[TraceStep]) -> Iterator[list[TraceStep]]:
    """Yield each draft's verify step with the replays that follow from it."""
    chain: list[TraceStep] = []
    for step in steps:
        chain.append(step)
        if not step.restored:
            yield chain
            chain = []
    if chain:
        yield chain


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part.strip())
