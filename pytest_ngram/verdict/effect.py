"""One config against another: what was measured, before anything is decided of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

import msgspec

from pytest_ngram.verdict.grid import Grid, pair, prompt_seconds
from pytest_ngram.verdict.interval import Fit, Gap, fit, half_width, p_value
from pytest_ngram.verdict.samples import NOT_TIMED, Sample
from pytest_ngram.verdict.types import Effect, Estimate, Settings, Span

T = TypeVar("T", str, int)


class Measured(msgspec.Struct, frozen=True):
    """An effect with the numbers that a decision needs: logs, variances, the floor.

    `starts` is 1/n + 1/m of the server starts of a block on the two sides.
    """

    effect: Effect
    fit: Fit | None
    gap: Gap | None
    starts: float

    def floor_log(self, settings: Settings) -> float | None:
        """The floor on the log scale; None where there is no gap to make it of."""
        if self.gap is None or self.fit is None:
            return None
        return self.gap.floor(settings.level, self.starts, self.fit.blocks)

    def known(self, settings: Settings) -> Known | None:
        """All that a decision needs; None where something of it is not known."""
        span, floor, weighted = self.effect.span, self.floor_log(settings), self.effect.token_weighted
        if self.fit is None or self.gap is None or floor is None or span is None or weighted is None:
            return None
        distance = abs(self.fit.value - math.log1p(settings.threshold))
        return Known(self.fit, self.gap, span, floor, distance, weighted.ratio - 1)


class Known(msgspec.Struct, frozen=True):
    """An effect of which all is known.

    Args:
        fit, gap, span: as they are there.
        floor_log: the floor on the log scale.
        distance: between estimate and threshold on the log scale.
        weighted: the token-weighted gain, as a ratio − 1.
    """

    fit: Fit
    gap: Gap
    span: Span
    floor_log: float
    distance: float
    weighted: float


def measure(own: Sequence[Sample], base: Sequence[Sample], gap: Gap | None, settings: Settings) -> Measured:
    """Return one config against another; its decision is still open ("cannot tell", no reasons).

    Args:
        own: cells of the config, at least one.
        base: cells of the other.
        gap: of the baseline, over the same prompts.
        settings: of the verdict.
    """
    config, against = own[0].config, base[0].config if base else settings.baseline
    effect = Effect(
        config=config, against=against, decision="cannot tell", reasons=(), excluded=excluded(own)
    )
    starts = 1 / _passes(own) + 1 / _passes(base)
    grid = pair(own, base)
    if grid is None:
        return Measured(effect, None, gap, starts)
    of = fit(grid.ratios, grid.filled)
    low, high = _ends(of, settings.level)
    own_mb, base_mb = _rss_mb(own), _rss_mb(base)
    measured = Measured(effect, of, gap, starts)
    floor = measured.floor_log(settings)
    effect = msgspec.structs.replace(
        effect,
        ratio=math.exp(of.value),
        low=low,
        high=high,
        token_weighted=_estimate(fit(grid.ratios, grid.filled, grid.tokens), settings.level),
        these_prompts=_estimate(of, settings.level, fixed_prompts=True),
        floor=None if floor is None else math.expm1(floor),
        p=p_value(of),
        n_blocks=of.blocks,
        n_prompts=of.prompts,
        n_cells=_entered(own, grid),
        idle=all(s.idle for s in own if s.usable),
        tokens=_tokens(own, grid),
        tokens_against=_tokens(base, grid),
        lost_prompts=grid.lost_prompts,
        lost_blocks=grid.lost_blocks,
        filled=grid.filled,
        pp=_pp(own, base, settings.level),
        rss=own_mb / base_mb if own_mb and base_mb else None,
        rss_more_mb=own_mb - base_mb if own_mb and base_mb else None,
        per_prompt=_ratios(grid.prompts, grid.ratios.mean(axis=0)),
        per_block=_ratios(grid.blocks, grid.ratios.mean(axis=1)),
    )
    return msgspec.structs.replace(measured, effect=effect)


def excluded(samples: Iterable[Sample]) -> dict[str, int]:
    """Count the cells that enter nothing, by why."""
    why = (s.status if s.status != "ok" else s.disturbed or NOT_TIMED for s in samples if not s.usable)
    return dict(sorted(Counter(why).items()))


def _passes(samples: Iterable[Sample]) -> int:
    return max(1, len({sample.pass_ for sample in samples}))


def _entered(own: Iterable[Sample], grid: Grid) -> int:
    return sum(s.usable and s.prompt in grid.prompts and s.block in grid.blocks for s in own)


def _tokens(samples: Iterable[Sample], grid: Grid) -> float | None:
    """Tokens of an answer, each prompt alike: the sides need not have the same number of cells of each."""
    counts: dict[str, list[int]] = defaultdict(list)
    for s in samples:
        if s.usable and s.tokens is not None and s.prompt in grid.prompts and s.block in grid.blocks:
            counts[s.prompt].append(s.tokens)
    return fmean(map(fmean, counts.values())) if len(counts) == len(grid.prompts) else None


def _ends(of: Fit, level: float, *, fixed_prompts: bool = False) -> tuple[float | None, float | None]:
    half = half_width(of, level, fixed_prompts=fixed_prompts)
    if half is None:
        return None, None
    return math.exp(of.value - half), math.exp(of.value + half)


def _estimate(of: Fit, level: float, *, fixed_prompts: bool = False) -> Estimate:
    return Estimate(math.exp(of.value), *_ends(of, level, fixed_prompts=fixed_prompts))


def _pp(own: Sequence[Sample], base: Sequence[Sample], level: float) -> Estimate | None:
    grid = pair(own, base, prompt_seconds)
    return None if grid is None else _estimate(fit(grid.ratios, grid.filled), level)


def _rss_mb(samples: Iterable[Sample]) -> float | None:
    """The largest resident memory of a cell: what the machine has to have."""
    return max((s.rss_mb for s in samples if s.status == "ok" and s.rss_mb), default=None)


def _ratios(names: Sequence[T], logs: Iterable[float]) -> dict[T, float]:
    return {name: math.exp(value) for name, value in zip(names, logs, strict=True)}
