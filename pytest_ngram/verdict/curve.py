"""The host's cost curve T(w)/T(1), and what follows from it: break-even acceptance, predicted speed-up. Pure.

T(w) is how long a decode of w tokens takes, T(1) a plain step. A draft of n tokens is verified by a decode of
n + 1, so a step costs T(n + 1) and the drafting, and gives 1 + n × acceptance tokens instead of 1.

A ratio is of mean times on both sides: what a step takes now and then, such as building its graph anew, is
paid in every run. Of plain steps only the mean is known; a median beside it would make drafts look cheaper.

Worked example: T(4)/T(1) = 1.6, and drafting a token costs 0.08 of a plain step. A step with n_max 3 costs
1.6 + 3 × 0.08 = 1.84 plain steps, so it pays from 1.84 tokens on: an acceptance of 0.84 ÷ 3 = 0.28. At an
acceptance of 0.8 it gives 3.4 tokens, and the speed-up is 3.4 ÷ 1.84 = 1.85.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from pytest_ngram.record import Round

SCHEMA = 1
WIDTHS = tuple(range(1, 18))
LOOKUP = "ngram"  # all types that look their drafts up have one curve: the decode does not know who drafted
PLAIN = "none"


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """T(w): `n` steps that verified `tokens` tokens, their mean in ms, and `ratio` to a plain step.

    `low` and `high` are the ratio's lowest and highest over blocks. `draft_ratio` is what drafting one token
    cost, of a plain step, where drafts had this length: the first one may cost more than the next.
    """

    tokens: int
    n: int
    ms: float
    ratio: float
    low: float
    high: float
    draft_ratio: float | None = None


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One drafter's curve. `draft_ratio`: what drafting one token costs, of a plain step, in the middle.

    The curve of `draft-mtp` holds its catch-up decode, and that of types which draft more than a recurrent
    state can be rolled back holds the storing of that state: each drafter has the curve that it pays.
    """

    points: tuple[Point, ...]
    draft_ratio: float | None

    def ratio(self, tokens: int) -> float | None:
        """T(w)/T(1), between two measured widths on the line between them; None outside of all."""
        if tokens == 1:
            return 1.0
        known = [(1, 1.0), *((point.tokens, point.ratio) for point in self.points)]
        for (w, low), (v, high) in itertools.pairwise(known):
            if w <= tokens <= v:
                return low + (high - low) * (tokens - w) / (v - w)
        return None

    def step_ratio(self, tokens: int) -> float | None:
        """What a step costs that drafts `tokens` − 1 tokens and verifies them; None outside of the curve."""
        ratio = self.ratio(tokens)
        return None if ratio is None else ratio + self.drafting(tokens)

    def drafting(self, tokens: int) -> float:
        """What drafting costs, in plain steps, where a step verifies `tokens`: by the nearest known width."""
        known = [
            (abs(p.tokens - tokens), p.tokens, p.draft_ratio)
            for p in self.points
            if p.draft_ratio is not None
        ]
        price = min(known)[2] if known else self.draft_ratio or 0.0
        return (tokens - 1) * price


class BreakEven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a draft of `n_max` tokens costs (in plain steps) and the acceptance from which it pays.

    Above 1 it never does; `acceptance` is accepted ÷ drafted tokens.
    """

    n_max: int
    step_ratio: float
    acceptance: float


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The curve of one model on one host, by drafter.

    `plain_ms` is T(1): the median over requests, each the mean of its plain steps, with the weight of these;
    `plain_n` are all of them.
    """

    plain_ms: float
    plain_n: int
    blocks: int
    series: dict[str, Series]


@dataclass(frozen=True)
class Timed:
    """n steps of one width that took `ms` each, in the middle; `drafter` is `none` for plain steps."""

    block: int
    drafter: str
    tokens: int
    ms: float
    n: int


@dataclass(frozen=True)
class Drafted:
    """n tokens that one drafter drafted, at `ms` each, mostly for steps that verify `tokens`."""

    block: int
    drafter: str
    tokens: int
    ms: float
    n: int


def timed(round_: Round, block: int, *, baseline: bool) -> tuple[list[Timed], list[Drafted]]:
    """Return what one request adds to the curve; nothing where its steps were not timed.

    A request in which two types drafted adds nothing: whose steps were whose is not known; nor does one whose
    plain steps had to be told from its verify steps by a fit. Plain steps count in the baseline only, where
    they carry nothing of a drafter.
    """
    told = round_.telemetry
    if told is None or told.step_ms_by_width is None:
        return [], []
    if baseline:
        plain = told.step_ms_by_width.get("1")
        return ([Timed(block, PLAIN, 1, plain.mean_ms, plain.n)] if plain else []), []
    drafters = [name for name, each in (round_.by_type or {}).items() if each.drafted]
    if len(drafters) != 1 or told.cost is None or told.cost.plain_from != "alone":
        return [], []
    drafter = drafters[0] if drafters[0].startswith("draft-") else LOOKUP
    steps = [
        Timed(block, drafter, int(width), time.mean_ms, time.n)
        for width, time in told.step_ms_by_width.items()
        if int(width) > 1
    ]
    if not steps or not round_.drafted or not round_.predicted_n:
        return steps, []
    draft_ms = told.cost.draft_ms * (round_.predicted_n - 1)
    commonest = max(steps, key=lambda step: step.n).tokens
    return steps, [Drafted(block, drafter, commonest, draft_ms / round_.drafted, round_.drafted)]


def curve(steps: Iterable[Timed], drafted: Iterable[Drafted] = ()) -> Curve | None:
    """Return the curve; None where no block has plain steps to compare with.

    A ratio is taken within each block, and the middle one of the blocks is kept: a host that is slower in one
    block is so for all widths.
    """
    groups: dict[tuple[str, int], dict[int, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        groups[step.drafter, step.tokens][step.block].append((step.ms, step.n))
    plain_steps = groups.pop((PLAIN, 1), {})
    if not plain_steps:
        return None
    plain = {block: _middle(own) for block, own in plain_steps.items()}
    prices: dict[tuple[str, int | None], list[tuple[float, int]]] = defaultdict(list)
    for each in drafted:
        if each.block in plain:
            for of in (each.tokens, None):
                prices[each.drafter, of].append((each.ms / plain[each.block], each.n))
    price = {of: _middle(pairs) for of, pairs in prices.items()}
    points: dict[str, list[Point]] = defaultdict(list)
    for (drafter, tokens), by_block in sorted(groups.items()):
        point = _point(tokens, by_block, plain)
        if point is not None:
            points[drafter].append(msgspec.structs.replace(point, draft_ratio=price.get((drafter, tokens))))
    return Curve(
        plain_ms=_middle([pair for own in plain_steps.values() for pair in own]),
        plain_n=sum(n for own in plain_steps.values() for _, n in own),
        blocks=len(plain),
        series={drafter: Series(tuple(own), price.get((drafter, None))) for drafter, own in points.items()},
    )


def _point(
    tokens: int, by_block: Mapping[int, Sequence[tuple[float, int]]], plain: Mapping[int, float]
) -> Point | None:
    ratios = [_middle(own) / plain[block] for block, own in by_block.items() if block in plain]
    if not ratios:
        return None
    pairs = [pair for own in by_block.values() for pair in own]
    return Point(
        tokens=tokens,
        n=sum(n for _, n in pairs),
        ms=_middle(pairs),
        ratio=median(ratios),
        low=min(ratios),
        high=max(ratios),
    )


def _middle(pairs: Sequence[tuple[float, int]]) -> float:
    """The median of values, each of which stands for so many."""
    half, so_far = sum(n for _, n in pairs) / 2, 0
    values = sorted(pairs)
    for i, (value, n) in enumerate(values):
        so_far += n
        if so_far > half:
            return value
        if so_far == half:
            return (value + values[i + 1][0]) / 2
    raise ValueError("no values")


def break_even(series: Series, n_max: int) -> BreakEven | None:
    """Return what a full draft of `n_max` costs and has to bring; None where the curve does not reach it."""
    step = series.step_ratio(n_max + 1)
    if step is None:
        return None
    return BreakEven(n_max=n_max, step_ratio=step, acceptance=(step - 1) / n_max)


def predicted(series: Series, verify: Mapping[int, int], plain_n: int, tokens: int) -> float | None:
    """Return the speed-up over plain steps that the curve foresees; None where a width lies outside of it.

    Args:
        series: of the drafter.
        verify: how many verify steps there are of each width.
        plain_n: how many plain steps.
        tokens: that all these steps give together.
    """
    cost = float(plain_n)
    for width, n in verify.items():
        step = series.step_ratio(width)
        if step is None:
            return None
        cost += n * step
    return tokens / cost if cost else None


N_MAX = (1, 2, 3, 4, 5, 8, 12, 16)


def break_evens(found: Curve) -> dict[str, tuple[BreakEven, ...]]:
    """Return the break-even of each drafter at each `N_MAX` that its curve reaches."""
    return {
        drafter: tuple(each for n_max in N_MAX if (each := break_even(series, n_max)) is not None)
        for drafter, series in found.series.items()
    }
