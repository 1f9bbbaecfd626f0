"""What a decode of several tokens costs on a host, and the speed that a replayed policy would have there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_ngram.drafting.tally import Tally

Floats = npt.NDArray[np.float64]
Widths = Sequence[tuple[int, int]]
RESAMPLES = 400
_TAIL_PERCENT = 2.5


@dataclass(frozen=True)
class Timed:
    """One measured request: its decodes by how many tokens they had, and the seconds that they took."""

    widths: Widths
    elapsed_s: float


@dataclass(frozen=True)
class Curve:
    """Seconds of a decode by its tokens: `seconds[i]` of `tokens[i]`, straight in between and beyond.

    `low` and `high` are the seconds of the fastest and slowest block, where several were measured.
    """

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def of(self, tokens: int) -> float:
        """Return the seconds of one decode."""
        if tokens > self.tokens[-1] and len(self.tokens) > 1:
            rise = (self.seconds[-1] - self.seconds[-2]) / (self.tokens[-1] - self.tokens[-2])
            return self.seconds[-1] + rise * (tokens - self.tokens[-1])
        return float(np.interp(tokens, self.tokens, self.seconds))

    def between(self, share: float) -> Curve:
        """Return the curve that lies so far, 0 to 1, on the way from the fastest to the slowest block."""
        if self.low is None or self.high is None:
            return self
        drawn = tuple(low + share * (high - low) for low, high in zip(self.low, self.high, strict=True))
        return Curve(self.tokens, drawn)

    def seconds_of(self, widths: Widths) -> float:
        """Return the seconds of all decodes."""
        return sum(self.of(tokens) * steps for tokens, steps in widths)


@dataclass(frozen=True)
class Predicted:
    """Generated tokens per second, with the 95 % interval of resampled prompts and measurements, if known."""

    tg: float
    low: float | None = None
    high: float | None = None


def fit(timed: Sequence[Timed]) -> Curve | None:
    """Return the straight line through measured requests; None where they do not have two different widths.

    Each request says that its decodes took so long: sum over its decodes of `first + more * (tokens - 1)`.
    The two are found by least squares of the relative error, so long answers do not outweigh short ones.

    Worked example: 10 plain decodes in 1.0 s, and 4 plain with 3 of 3 tokens in 1.3 s: a decode takes 0.1 s,
    two more tokens 0.2 s, so each more 0.1 s.
    """
    rows = np.array(
        [(sum(n for _, n in each.widths), sum((w - 1) * n for w, n in each.widths)) for each in timed], float
    ).reshape(-1, 2)
    times = np.array([each.elapsed_s for each in timed], float)
    usable = times > 0
    rows, times = rows[usable] / times[usable, None], np.ones(int(usable.sum()))
    if len(rows) < 2 or np.linalg.matrix_rank(rows) < 2:
        return None
    first, more = np.linalg.lstsq(rows, times, rcond=None)[0]
    if first <= 0:
        return None
    return Curve((1, 2), (float(first), float(first + max(more, 0.0))))


def from_points(
    seconds_by_tokens: Mapping[int, float],
    low: Mapping[int, float] | None = None,
    high: Mapping[int, float] | None = None,
) -> Curve:
    """Return the curve through measured points, with the fastest and slowest block's where they are known.

    Raises:
        ValueError: there is no point, or one that no decode can have.
    """
    tokens = tuple(sorted(seconds_by_tokens))
    if not tokens or tokens[0] < 1:
        raise ValueError("a decode has a token or more")
    lines = [
        None if given is None else tuple(given[each] for each in tokens)
        for given in (seconds_by_tokens, low, high)
    ]
    if not all(math.isfinite(each) and each > 0 for line in lines if line is not None for each in line):
        raise ValueError("a decode takes time")
    return Curve(tokens, lines[0] or (), lines[1], lines[2])


def estimate(tallies: Iterable[Tally], curve: Curve | None) -> Predicted | None:
    """Return the speed of a policy without its interval."""
    known = [each for each in tallies if each.generated]
    return Predicted(_tg(known, curve)) if known and curve is not None else None


def predict(
    tallies: Iterable[Tally], curve: Curve | None, timed: Sequence[Timed] = (), seed: int = 1
) -> Predicted | None:
    """Return the speed of a policy, each prompt with the weight of its tokens.

    Args:
        tallies: one for each prompt.
        curve: the host's; None gives None.
        timed: what the curve was fitted to, resampled with the prompts; empty for a curve that is given,
            which is drawn between its fastest and slowest block.
        seed: of the resampling.
    """
    per_prompt = [each for each in tallies if each.generated]
    if curve is None or not per_prompt:
        return None
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(RESAMPLES):
        chosen = [per_prompt[i] for i in generator.integers(len(per_prompt), size=len(per_prompt))]
        again = curve.between(generator.random())
        if timed:
            drawn = [timed[i] for i in generator.integers(len(timed), size=len(timed))]
            again = fit(drawn) or curve
        values.append(_tg(chosen, again))
    low, high = np.percentile(values, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return Predicted(_tg(per_prompt, curve), float(low), float(high))


def _tg(tallies: Sequence[Tally], curve: Curve) -> float:
    seconds = sum(curve.seconds_of(each.widths) for each in tallies)
    return sum(each.generated for each in tallies) / seconds
