"""A request that others disturbed, or heat slowed, is measured again, and the quietest is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_ngram.measure.sampler import Span
from pytest_ngram.record import Disturbance, Host, Round
from pytest_ngram.verdict.contention import STATEFUL, Bounds, Marks, marks

# So many requests in a row that stayed disturbed in all repeats: the machine is busy, not only for a moment.
IN_VAIN = 5
Done = tuple[Round, Span]


@dataclass
class Luck:
    """How many requests in a row stayed disturbed although they were measured again."""

    in_vain: int = 0


@dataclass(frozen=True)
class Quiet:
    """When a request of a cell is measured again.

    Args:
        bounds: from where on it is contended or throttled.
        repeats: how many requests of a cell may be measured again.
        has_time: whether there is time for that many seconds more.
        rest: called before a repeat; returns the seconds that it waited.
        sensor: whose temperature is looked at; None takes the processor's.
        luck: shared by the cells of a run.
    """

    bounds: Bounds = field(default_factory=Bounds)
    repeats: int = 0
    has_time: Callable[[float], bool] = lambda seconds: True
    rest: Callable[[], float] = lambda: 0.0
    sensor: str | None = None
    luck: Luck = field(default_factory=Luck)


class Again:
    """Measures the requests of a cell again while they are disturbed. Keeps the quietest, never the fastest.

    Args:
        quiet: when, and how often in a cell.
        stateful: the config learns from each request, so the same one again would meet another state, and
            so would all that come after it.
    """

    def __init__(self, quiet: Quiet, *, stateful: bool) -> None:
        self._quiet = quiet
        self._stateful = stateful
        self._repeats = 0
        self._repeat_s = 0.0

    def quietest(self, work: Callable[[], Done], host_of: Callable[[Span], Host]) -> Done:
        """Do the work once, and again while it is disturbed and may be repeated; return the quietest."""
        found = [self._judged(work(), host_of)]
        while found[-1][1].any and self._why_not(found[-1][0][1].seconds) is None:
            self._repeats += 1
            self._repeat_s += self._quiet.rest()
            found.append(self._judged(work(), host_of))
        if len(found) > 1 or not found[0][1].any:
            self._quiet.luck.in_vain = self._quiet.luck.in_vain + 1 if found[-1][1].any else 0
        kept = min(found, key=lambda each: (each[1].any, each[1].severity))[0]
        self._repeat_s += sum(each[0][1].seconds for each in found) - kept[1].seconds
        return kept

    def disturbance(self, seen: Host) -> Disturbance:
        """Return what speaks against a cell, and how often it was measured again."""
        found = marks(seen, self._quiet.bounds)
        return Disturbance(
            contended=found.contended,
            throttled=found.throttled,
            repeats=self._repeats,
            repeat_s=self._repeat_s,
            not_repeated=self._why_not(seen.seconds or 0.0) if found.any else None,
        )

    def _judged(self, done: Done, host_of: Callable[[Span], Host]) -> tuple[Done, Marks]:
        return done, marks(host_of(done[1]), self._quiet.bounds)

    def _why_not(self, seconds: float) -> str | None:
        if self._stateful:
            return STATEFUL
        if self._repeats >= self._quiet.repeats:
            return f"{self._quiet.repeats} repeats are allowed in a cell"
        if self._quiet.luck.in_vain >= IN_VAIN:
            return f"{IN_VAIN} requests in a row stayed disturbed in all repeats"
        return None if self._quiet.has_time(seconds) else "the budget leaves no time"
