"""A run of which one number a config is left, unrepeated: what it points to, and how much noise that bears.

No interval can be given and nothing is decided. What can be said of a conclusion is up to which noise floor
it holds: a ratio r that is off by up to a factor 1 + f either way is still above 1 while f < r − 1, and still
below 1 while f < 1 ÷ r − 1. Worked example: 8.36 t/s against 4.76 t/s holds up to 75.6 %, since 8.36 ÷ 4.76
is 1.756; 10.15 against 10.22 holds up to 0.7 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.interval import Gap
from pytest_ngram.verdict.types import Decision, Settings

Claim = Literal["faster", "slower", "no better", "tie", "one configuration"]
Speed = Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)]  # tokens/s; a ratio of two is a number
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_MTP = re.compile(r"mtp(\d+)")
_SPLIT = {"coverage": "coverage", "drafts": "drafts", "step_ms": "T(w)", "replays": "replays"}


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One config of a run that was written down.

    Args:
        id, config: its letter and its config.
        tg: tokens/s.
        accept: acceptance, 0 to 1.
        coverage, drafts, step_ms, replays: what would split a change into its causes: the share of steps with
            a draft, drafted tokens per draft, T(w) in ms by width, replays per step. Null where not known.
    """

    id: str
    config: str
    tg: Speed
    accept: Share | None = None
    coverage: Share | None = None
    drafts: float | None = None
    step_ms: dict[int, float] | None = None
    replays: float | None = None


class PointRun(msgspec.Struct, frozen=True):
    """Groups of rows; only rows of one group compare. Other keys of the file are passed over."""

    groups: dict[str, tuple[Point, ...]]


class PointRow(msgspec.Struct, frozen=True):
    """A figure with its label. `change` is the ratio to the baseline of its group − 1, null without one."""

    group: str
    id: str
    config: str
    tg: float
    change: float | None
    decision: Decision
    reasons: tuple[Reason, ...]


class Comparison(msgspec.Struct, frozen=True):
    """One config against another of its group.

    Args:
        group, config, against: the two; ids of a configuration that was written in several orders are joined.
        claim: what the two numbers point to.
        change: ratio − 1.
        survives: the largest noise floor, as a ratio − 1, that the claim holds under; null where under any.
        needs: the smallest one that the claim is true with: two numbers are a tie if noise makes as much.
    """

    group: str
    config: str
    against: str
    claim: Claim
    change: float
    survives: float | None
    needs: float = 0.0


class Conclusion(msgspec.Struct, frozen=True):
    """What some comparisons point to together; `survives` is the least of theirs."""

    what: Reason
    comparisons: tuple[Comparison, ...]
    survives: float | None


class PointVerdict(msgspec.Struct, frozen=True):
    """All that one repeat can say.

    `own_floor` is the floor that the run's only repeat makes, as a ratio − 1: one configuration that was
    measured as two. Null without one.
    """

    rows: tuple[PointRow, ...]
    conclusions: tuple[Conclusion, ...]
    own_floor: float | None


def points_from_builtins(data: Any) -> PointRun:
    """Read a run. Raises `msgspec.ValidationError` with the path of what is wrong."""
    groups = data.get("groups") if isinstance(data, dict) else None
    for name, rows in groups.items() if isinstance(groups, dict) else ():
        try:
            msgspec.convert(rows, tuple[Point, ...])
        except msgspec.ValidationError as error:
            # the library names no key of a mapping, and a file has more groups than one
            what, at, place = str(error).rpartition(" - at `$")
            said = f"{what}{at}.groups.{name}{place}" if at else f"{place} - at `$.groups.{name}`"
            raise msgspec.ValidationError(said) from error
    return msgspec.convert(data, PointRun)


def judge_points(run: PointRun, settings: Settings, stateful: frozenset[str] = frozenset()) -> PointVerdict:
    """Return what a run of single numbers points to, and how much noise each conclusion bears.

    Args:
        run: the numbers.
        settings: of which threshold, level and baseline are used.
        stateful: types that keep state between requests: the order of the prompts is in their numbers.
    """
    merged = {group: _merged(points) for group, points in run.groups.items()}
    orders = [pair for group, points in run.groups.items() for pair in _orders(group, points)]
    mtp = _mtp(merged, settings)
    made = [
        _conclusion("points-corpus", _corpus(merged)),
        _conclusion("points-lookup", _alone(merged, settings)),
        _conclusion("points-stacks", _stacks(merged)),
        _conclusion("points-mtp", mtp, best=_best(mtp, settings)),
        _conclusion("points-order", orders),
    ]
    gaps = tuple(math.log1p(each.change) for each in orders)
    return PointVerdict(
        rows=tuple(
            _row(group, point, points, settings, stateful)
            for group, points in run.groups.items()
            for point in points
        ),
        conclusions=tuple(each for each in made if each is not None),
        own_floor=math.expm1(Gap(gaps).floor(settings.level, 2.0, 1)) if gaps else None,
    )


def missing_inputs(point: Point) -> tuple[str, ...]:
    """Return what is not known of all that splits a change into coverage, draft, verify and replay."""
    return tuple(name for field, name in _SPLIT.items() if getattr(point, field) is None)


def compare(group: str, own: Point, base: Point, claim: Claim) -> Comparison:
    """Return a comparison with the noise that its claim bears; 0 where the numbers contradict it."""
    ratio = own.tg / base.tg
    change, apart = ratio - 1, max(ratio, 1 / ratio) - 1
    if claim in ("tie", "one configuration"):
        return Comparison(group, own.config, base.config, claim, change, None, apart)
    bears = ratio - 1 if claim == "faster" else 1 / ratio - 1
    return Comparison(group, own.config, base.config, claim, change, max(0.0, bears))


def _row(
    group: str, point: Point, points: Sequence[Point], settings: Settings, stateful: frozenset[str]
) -> PointRow:
    base = _named(points, settings.baseline)
    change = point.tg / base.tg - 1 if base is not None and base is not point else None
    reasons = [reason("unrepeated")]
    missing = missing_inputs(point)
    if change is not None and abs(change) > settings.threshold and missing:
        reasons.append(reason("split-needs", change=change, inputs=", ".join(missing)))
    if stateful & _types(point.config):
        reasons.append(reason("keeps-state", types=", ".join(sorted(stateful & _types(point.config)))))
    return PointRow(group, point.id, point.config, point.tg, change, "cannot tell", tuple(reasons))


def _conclusion(code: str, comparisons: Sequence[Comparison], **values: str) -> Conclusion | None:
    if not comparisons:
        return None
    bears = [each.survives for each in comparisons if each.survives is not None]
    said = sorted({each.claim for each in comparisons})
    return Conclusion(
        reason(code, claims=", ".join(said), **values), tuple(comparisons), min(bears, default=None)
    )


def _corpus(groups: Mapping[str, Sequence[Point]]) -> list[Comparison]:
    """Each config with a table against the same without."""
    found = []
    for group, points in groups.items():
        for point in points:
            base = _with(points, _types(point.config)) if _table(point.config) else None
            if base is not None:
                found.append(compare(group, point, base, "faster" if point.tg > base.tg else "no better"))
    return found


def _alone(groups: Mapping[str, Sequence[Point]], settings: Settings) -> list[Comparison]:
    """Each n-gram type by itself and without a table against the baseline, where the two are apart."""
    found = []
    for group, points in groups.items():
        base = _named(points, settings.baseline)
        for point in points:
            types = _types(point.config)
            lookup = len(types) == 1 and not any(map(_MTP.fullmatch, types)) and not _table(point.config)
            if base is not None and lookup and point is not base:
                found.append(compare(group, point, base, _direction(point, base, settings)))
    return [each for each in found if each.claim != "tie"]


def _stacks(groups: Mapping[str, Sequence[Point]]) -> list[Comparison]:
    """Each n-gram type on top of MTP, without a table, against that MTP alone."""
    found = []
    for group, points in groups.items():
        for point in points:
            types = _types(point.config)
            mtp = {name for name in types if _MTP.fullmatch(name)}
            base = _with(points, mtp) if mtp and types > mtp and not _table(point.config) else None
            if base is not None:
                found.append(compare(group, point, base, "faster" if point.tg > base.tg else "no better"))
    return found


def _mtp(groups: Mapping[str, Sequence[Point]], settings: Settings) -> list[Comparison]:
    """The smallest MTP against the baseline, and each larger one against the smallest."""
    found = []
    for group, points in groups.items():
        sizes = sorted(
            (int(match[1]), point) for point in points if (match := _MTP.fullmatch(point.config)) is not None
        )
        base = _named(points, settings.baseline)
        if not sizes or base is None:
            continue
        least = sizes[0][1]
        found.append(compare(group, least, base, _direction(least, base, settings)))
        found += [compare(group, more, least, _direction(more, least, settings)) for _n, more in sizes[1:]]
    return found


def _best(comparisons: Sequence[Comparison], settings: Settings) -> str:
    """The smallest MTP that pays in every group, unless a larger one is faster still."""
    first = [each for each in comparisons if each.against == settings.baseline]
    if not first or any(each.claim != "faster" for each in first):
        return settings.baseline
    larger = [each for each in comparisons if each.against != settings.baseline and each.claim == "faster"]
    return max(larger, key=lambda each: each.change).config if larger else first[0].config


def _direction(own: Point, base: Point, settings: Settings) -> Claim:
    """A difference smaller than what a change has to be worth is a tie."""
    apart = max(own.tg / base.tg, base.tg / own.tg) - 1
    if apart <= settings.threshold:
        return "tie"
    return "faster" if own.tg > base.tg else "slower"


def _orders(group: str, points: Iterable[Point]) -> list[Comparison]:
    """Rows that are one configuration: the same types in another order."""
    found = []
    seen: dict[frozenset[str], Point] = {}
    for point in points:
        other = seen.setdefault(frozenset(point.config.split("+")), point)
        if other is not point:
            found.append(compare(group, point, other, "one configuration"))
    return found


def _merged(points: Iterable[Point]) -> tuple[Point, ...]:
    """One row for one configuration: the geometric mean of those that were written in several orders."""
    same: dict[frozenset[str], list[Point]] = {}
    for point in points:
        same.setdefault(frozenset(point.config.split("+")), []).append(point)
    return tuple(
        msgspec.structs.replace(
            rows[0],
            id="/".join(row.id for row in rows),
            config=" = ".join(row.config for row in rows) if len(rows) > 1 else rows[0].config,
            tg=math.exp(sum(math.log(row.tg) for row in rows) / len(rows)),
        )
        for rows in same.values()
    )


def _parts(config: str) -> set[str]:
    return set(config.split(" = ", maxsplit=1)[0].split("+"))


def _table(config: str) -> bool:
    return any(part.endswith("table") for part in _parts(config))


def _types(config: str) -> set[str]:
    return {part for part in _parts(config) if not part.endswith("table")}


def _named(points: Iterable[Point], config: str) -> Point | None:
    return next((point for point in points if point.config == config), None)


def _with(points: Iterable[Point], types: set[str]) -> Point | None:
    return next((each for each in points if _types(each.config) == types and not _table(each.config)), None)
