"""The steps of one request out of the time stamps of its trace: which step took how long. Pure.

A verify step and a replay leave a line when they are done; a plain step leaves none. So between two lines
lies a *gap*: some plain steps, perhaps none, and the step of the second line. How many plain steps there
were in all is known from the counts; how they lie in the gaps is found by fitting.

Worked example: lines of width 9 at 17, 27 and 47 ms after the generation began, 4 plain steps, end at 52 ms.
The gaps are 17, 10 and 20 ms, the tail is 5 ms. Plain steps of 5 ms and verify steps of 10 ms fit if the gaps
hold 1, 0 and 2 plain steps and the tail 1: 15, 10, 20 and 5 ms, off by 2, 0, 0 and 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

# what a further token of a verify step may cost, of a plain step: where the fit begins
_RATIOS = (0.02, 0.1, 0.25, 0.5, 1.0, 2.0)
_ROUNDS = 30
_TAIL = 0.2  # of the shortest gap: a tail that is longer holds a plain step
_LEAST = 0.8  # no verify step is taken for much shorter than a plain one
_MOST = 2.0  # and none for more than so many plain steps for each of its tokens
UNCLEAR = 0.2  # a fit that is off by more than this part of a plain step (root mean square) tells little


@dataclass(frozen=True)
class Mark:
    """One trace line: `at_ms` after the generation began; `restored` where a replay follows."""

    at_ms: float
    drafted: int
    accepted: int
    restored: bool


@dataclass(frozen=True)
class Verify:
    """A verify step of `width` = drafted + 1 tokens. `alone`: no plain step shares its gap."""

    width: int
    ms: float
    alone: bool


@dataclass(frozen=True)
class Steps:
    """The steps of one request, drafting included. `residual` is of the fit; 0 where nothing was fitted.

    Nothing is where there are no plain steps, or one alone that nothing else but the tail can hold.
    """

    verify: tuple[Verify, ...]
    replay_ms: tuple[float, ...]
    plain_n: int
    plain_ms: float
    residual: float


@dataclass(frozen=True)
class _Gap:
    """A gap and the width of the step at its end; 0 for the tail, which ends with no such step."""

    ms: float
    width: int


def steps_of(marks: Sequence[Mark], end_ms: float, plain_n: int) -> Steps:
    """Return the steps between the first token, at 0 ms, and the last, at `end_ms`.

    Args:
        marks: the trace's lines in order.
        end_ms: when the last token came. Time after the last line belongs to plain steps if there are any.
        plain_n: how many plain steps there were, 0 or more.
    """
    gaps, replays, before, is_replay = [], [], 0.0, False
    for mark in marks:
        ms, before = mark.at_ms - before, mark.at_ms
        if is_replay:
            replays.append(ms)
        else:
            gaps.append(_Gap(ms, mark.drafted + 1))
        is_replay = mark.restored
    if not gaps:
        return Steps((), tuple(replays), plain_n, end_ms if plain_n else 0.0, 0.0)
    tail = _Gap(max(0.0, end_ms - before), 0)
    fit = _fit([*gaps, tail], plain_n)
    verify = tuple(
        Verify(gap.width, gap.ms - n * fit.plain_ms, n == 0)
        for gap, n in zip(gaps, fit.counts[:-1], strict=True)
    )
    plain_ms = end_ms - sum(replays) - sum(step.ms for step in verify) if plain_n else 0.0
    return Steps(verify, tuple(replays), plain_n, plain_ms, fit.residual)


@dataclass(frozen=True)
class _Fit:
    """Plain steps of `plain_ms`, `counts` of them in each gap; a verify step is `first_ms + w × token_ms`.

    One line for all widths, since few steps have each: a cost of its own for each width would fit anything.
    """

    counts: tuple[int, ...]
    plain_ms: float
    first_ms: float
    token_ms: float
    residual: float = 0.0

    def verify_ms(self, gap: _Gap) -> float:
        return self.first_ms + gap.width * self.token_ms if gap.width else 0.0


def _fit(gaps: Sequence[_Gap], plain_n: int) -> _Fit:
    """The best of a few fits, each from another idea of what a verify step costs."""
    if plain_n == 0:
        return _Fit((0,) * len(gaps), 0.0, 0.0, 0.0)
    if plain_n == 1 and _holds_a_step(gaps):
        return _Fit((*(0,) * (len(gaps) - 1), 1), gaps[-1].ms, 0.0, 0.0)
    return min((_fitted_from(gaps, plain_n, ratio) for ratio in _RATIOS), key=lambda fit: fit.residual)


def _holds_a_step(gaps: Sequence[_Gap]) -> bool:
    """Whether the tail is long enough for a step; without one it is the writing of a line."""
    return gaps[-1].ms > _TAIL * min(gap.ms for gap in gaps[:-1])


def _fitted_from(gaps: Sequence[_Gap], plain_n: int, ratio: float) -> _Fit:
    """Give the gaps their plain steps, take the times from that, and again until nothing changes."""
    all_ms = sum(gap.ms for gap in gaps)
    plain_ms = all_ms / (plain_n + sum(1 + ratio * (gap.width - 1) for gap in gaps if gap.width))
    least_ms = all_ms / (plain_n + _MOST * sum(gap.width for gap in gaps))
    fit = _Fit((), plain_ms, plain_ms * (1 - ratio), plain_ms * ratio)
    for _ in range(_ROUNDS):
        counts = _shared_out(gaps, plain_n, fit)
        if counts == fit.counts:
            break
        fit = _timed(gaps, counts, max(fit.plain_ms, least_ms), least_ms)
    off = [gap.ms - fit.verify_ms(gap) - n * fit.plain_ms for gap, n in _pairs(gaps, fit)]
    return replace(fit, residual=fmean(ms * ms for ms in off) ** 0.5 / fit.plain_ms)


def _pairs(gaps: Sequence[_Gap], fit: _Fit) -> Iterable[tuple[_Gap, int]]:
    return zip(gaps, fit.counts, strict=True)


def _shared_out(gaps: Sequence[_Gap], plain_n: int, fit: _Fit) -> tuple[int, ...]:
    """Round each gap to whole plain steps, then move where that costs the least until they add up."""
    wanted = [(gap.ms - fit.verify_ms(gap)) / fit.plain_ms for gap in gaps]
    least = [0] * (len(gaps) - 1) + [int(_holds_a_step(gaps))]
    counts = [max(low, round(number)) for low, number in zip(least, wanted, strict=True)]
    by = 1 if sum(counts) < plain_n else -1

    def price(i: int) -> float:
        return abs(wanted[i] - counts[i] - by) - abs(wanted[i] - counts[i])

    heap = [(price(i), i) for i in range(len(gaps)) if counts[i] + by >= least[i]]
    heapq.heapify(heap)
    for _ in range(abs(plain_n - sum(counts))):
        _price, i = heapq.heappop(heap)
        counts[i] += by
        if counts[i] + by >= least[i]:
            heapq.heappush(heap, (price(i), i))
    return tuple(counts)


def _timed(gaps: Sequence[_Gap], counts: tuple[int, ...], plain_ms: float, least_ms: float) -> _Fit:
    """Least squares: gap = count × plain + verify; within bounds, what is out of them is set to its bound."""
    rows = np.array([(n, gap.width > 0, gap.width) for gap, n in zip(gaps, counts, strict=True)], float)
    times = np.array([gap.ms for gap in gaps])
    plain, first, token = np.linalg.lstsq(rows, times, rcond=None)[0]
    if not any(counts) or plain < least_ms:
        plain = plain_ms if not any(counts) else least_ms
        first, token = np.linalg.lstsq(rows[:, 1:], times - rows[:, 0] * plain, rcond=None)[0]
    if token < 0 or first + 2 * token < _LEAST * plain:
        verify = rows[:, 1] > 0
        mean_ms = float(np.mean((times - rows[:, 0] * plain)[verify]))
        first, token = max(mean_ms, _LEAST * plain), 0.0
    return _Fit(counts, float(plain), float(first), float(token))
