"""What settings would give that were not measured: from the cost curve, and from what drafts bring. Pure.

A setting is its steps: how many decodes verified how many tokens, and how many tokens all of them gave. They
are those of a measured config, those of a measured MTP config with its drafts cut to a smaller n_max, or
those of a replay. The curve (`curve.py`) says what they cost, of plain steps:

    speed-up = tokens ÷ (plain + replays × T(w)/T(1) + sum over widths of steps × (T(w)/T(1) + drafting))
    ceiling  = the same without the drafting: tokens per step ÷ (T(w)/T(1)), what no drafter can be above that
               is accepted as often, however cheap it is

and tg is the baseline's times the speed-up.

Worked example: 10 verify steps of 4 tokens with 24 accepted, T(4)/T(1) = 1.6, drafting a token 0.1 plain
steps: 34 tokens. The ceiling is 34 ÷ 16 = 2.125, the speed-up 34 ÷ (16 + 10 × 3 × 0.1) = 1.79.

Cut to n_max 1, a step that accepted 2 of 3 would have accepted 1 of 1: it takes for granted that where a step
begins does not change what is accepted there. A longer draft than was measured is not foreseen.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from pytest_ngram.record import ECHO, Record, Round, unpack_tokens
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.curve import LOOKUP, BreakEven, Curve, Series, break_evens, curve
from pytest_ngram.verdict.curve_cells import DECODES
from pytest_ngram.verdict.curve_cells import steps_of as timed_steps
from pytest_ngram.verdict.grid import pair
from pytest_ngram.verdict.samples import from_records
from pytest_ngram.verdict.summary import BASELINE

MTP = "draft-mtp"
Source = Literal["measured", "cut", "replay"]


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting does to the target, over some requests together.

    Args:
        setting: its name.
        drafter: whose curve its steps pay: `ngram` for all that look up, else the type.
        source: a measured config's own steps, those of one with longer drafts, or a replay's.
        verify: how many verify steps there are of each width.
        replays: how many replays of each width.
        plain: steps without a draft.
        tokens: that all these gave.
        drafted, accepted: tokens.
    """

    setting: str
    drafter: str
    source: Source
    verify: Mapping[int, int]
    replays: Mapping[int, int]
    plain: int
    tokens: int
    drafted: int
    accepted: int

    @property
    def per_step(self) -> float | None:
        """Tokens per step, of all steps."""
        steps = self.plain + sum(self.verify.values()) + sum(self.replays.values())
        return self.tokens / steps if steps else None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What the curve foresees of a setting. Speed-ups are ratios to the baseline; tg in tokens/s.

    Args:
        setting, source: as `Steps`.
        acceptance, coverage, tokens_per_step: of its steps.
        speed_up, tg: foreseen.
        ceiling: the speed-up if drafting took no time.
        measured: the speed-up that the run has seen, where the setting was measured.
        why: there is no forecast.
    """

    setting: str
    source: Source
    acceptance: float | None = None
    coverage: float | None = None
    tokens_per_step: float | None = None
    speed_up: float | None = None
    tg: float | None = None
    ceiling: float | None = None
    measured: float | None = None
    why: Reason | None = None


class ModelForecast(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a model at one temperature, with the break-even of each drafter by n_max."""

    model: str
    temperature: float
    plain_tg: float | None
    settings: tuple[Forecast, ...]
    break_even: dict[str, tuple[BreakEven, ...]]
    why: Reason | None = None


def trace_of(round_: Round) -> list[tuple[int, int, bool]] | None:
    """Return the steps of a request's trace: drafted, accepted, and whether a replay follows; None without.

    A replay has a line of its own after the step that it repeats; it is no verify step.
    """
    packed = round_.telemetry.steps if round_.telemetry is not None else None
    if packed is None:
        return None
    numbers = unpack_tokens(packed)
    rows = zip(numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    steps: list[tuple[int, int, bool]] = []
    is_replay = False
    for drafted, accepted, restored in rows:
        if not is_replay:
            steps.append((drafted, accepted, bool(restored)))
        is_replay = bool(restored)
    return steps


def steps_of(setting: str, drafter: str, rounds: Sequence[Round], n_max: int | None = None) -> Steps | None:
    """Return the steps of requests; None where one has no trace.

    Args:
        setting: their name.
        drafter: who drafted.
        rounds: the requests.
        n_max: cut drafts to so many tokens; None leaves them.
    """
    verify: Counter[int] = Counter()
    replays: Counter[int] = Counter()
    plain = drafted = accepted = 0
    for round_ in rounds:
        trace = trace_of(round_)
        if trace is None or round_.steps is None or round_.verify_steps is None or round_.replays is None:
            return None
        plain += round_.steps - round_.verify_steps - round_.replays
        for own, kept, restored in trace:
            longest = own if n_max is None else min(own, n_max)
            verify[longest + 1] += 1
            drafted += longest
            accepted += min(kept, longest)
            if restored:
                replays[kept + 2] += 1
    return Steps(
        setting=setting,
        drafter=drafter,
        source="measured" if n_max is None else "cut",
        verify=dict(sorted(verify.items())),
        replays=dict(sorted(replays.items())),
        plain=plain,
        tokens=plain + sum(verify.values()) + sum(replays.values()) + accepted,
        drafted=drafted,
        accepted=accepted,
    )


def shared_out(steps: int, drafted: int) -> dict[int, int]:
    """Return widths for steps of which the sum of drafts alone is known: as equal as whole tokens can be.

    Worked example: 3 steps that drafted 7 tokens: two of 2 and one of 3, so widths 3, 3 and 4.
    """
    if not steps:
        return {}
    least, more = divmod(drafted, steps)
    return {width: n for width, n in ((least + 1, steps - more), (least + 2, more)) if n}


def foresee(of: Steps, series: Series | None, plain_tg: float | None) -> Forecast:
    """Return what the curve foresees of a setting.

    Args:
        of: its steps.
        series: its drafter's curve; None where it has none.
        plain_tg: the baseline's tg.
    """
    verify = sum(of.verify.values())
    said = Forecast(
        setting=of.setting,
        source=of.source,
        acceptance=of.accepted / of.drafted if of.drafted else None,
        coverage=verify / (verify + of.plain) if verify + of.plain else None,
        tokens_per_step=of.per_step,
    )
    if series is None:
        return msgspec.structs.replace(said, why=reason("no-curve", drafter=of.drafter))
    bare, drafting = float(of.plain), 0.0
    for width, n in (*of.verify.items(), *of.replays.items()):
        ratio = series.ratio(width)
        if ratio is None:
            return msgspec.structs.replace(said, why=reason("outside-curve", width=width))
        bare += n * ratio
    for width, n in of.verify.items():
        drafting += n * series.drafting(width)
    if not bare:
        return said
    speed_up = of.tokens / (bare + drafting)
    return msgspec.structs.replace(
        said,
        speed_up=speed_up,
        tg=None if plain_tg is None else plain_tg * speed_up,
        ceiling=of.tokens / bare,
    )


Key = tuple[str, float]


def forecasts(
    records: Iterable[Record],
    curves: Mapping[str, Curve] | None = None,
    replayed: Mapping[Key, Sequence[Steps]] | None = None,
) -> tuple[ModelForecast, ...]:
    """Return a forecast for each model and temperature of a run.

    Args:
        records: its cells; those that were disturbed are left out.
        curves: by model; of the others the run's own steps make one.
        replayed: settings of a replay, by model and temperature.
    """
    kept = [r for r in records if r.cell.prompt_set != ECHO and from_records([r])[0].usable]
    groups: dict[Key, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    by_model: dict[str, list[Record]] = defaultdict(list)
    for record in kept:
        groups[record.cell.model, record.cell.temperature][record.cell.config].append(record)
        by_model[record.cell.model].append(record)
    found = {model: (curves or {}).get(model) or _curve_of(own) for model, own in by_model.items()}
    return tuple(
        _model(key, dict(sorted(configs.items())), found[key[0]], (replayed or {}).get(key, ()))
        for key, configs in sorted(groups.items())
    )


def _curve_of(records: Iterable[Record]) -> Curve | None:
    """The curve that the steps of a model's cells make; None where they make none."""
    return curve(*timed_steps([records], commonest=True))


def _model(
    key: Key, configs: Mapping[str, Sequence[Record]], found: Curve | None, replayed: Sequence[Steps]
) -> ModelForecast:
    model, temperature = key
    baseline = from_records(configs.get(BASELINE, ()))
    tgs = [sample.seconds for sample in baseline if sample.seconds]
    plain_tg = 1 / fmean(tgs) if tgs else None
    empty = ModelForecast(model=model, temperature=temperature, plain_tg=plain_tg, settings=(), break_even={})
    if found is None:
        return msgspec.structs.replace(empty, why=reason("no-plain-steps", baseline=BASELINE))
    measured = [each for config, own in configs.items() if (each := _measured(config, own)) is not None]
    every = [*measured, *_cut(configs, measured), *replayed]
    made = []
    for each in every:
        said = foresee(each, found.series.get(each.drafter), plain_tg)
        if each.source == "measured":
            ratio = _speed_up(configs[each.setting], configs.get(BASELINE, ()))
            said = msgspec.structs.replace(said, measured=ratio)
        made.append(said)
    return msgspec.structs.replace(empty, settings=tuple(made), break_even=break_evens(found))


def _drafter(records: Iterable[Record]) -> str | None:
    """The one drafter of a config's requests; None where none or several drafted: whose step is whose?"""
    names = {
        name
        for record in records
        for round_ in record.rounds
        for name, own in (round_.by_type or {}).items()
        if own.drafted
    }
    if len(names) != 1:
        return None
    (name,) = names
    return name if name.startswith(DECODES) else LOOKUP


def _measured(config: str, records: Sequence[Record]) -> Steps | None:
    drafter = _drafter(records)
    if config == BASELINE or drafter is None:
        return None
    return steps_of(config, drafter, [r for record in records for r in record.rounds])


def _cut(configs: Mapping[str, Sequence[Record]], measured: Sequence[Steps]) -> list[Steps]:
    """MTP with every n_max that was not measured, out of the config that drafted most."""
    own = [each for each in measured if each.drafter == MTP and each.verify and not each.replays]
    if not own or any(each.replays for each in measured if each.drafter == MTP):
        return []  # how often a shorter draft has to be replayed is not known
    longest = max(own, key=lambda each: max(each.verify))
    seen = {max(each.verify) - 1 for each in own}
    rounds = [r for record in configs[longest.setting] for r in record.rounds]
    made = []
    for n_max in range(1, max(longest.verify) - 1):
        if n_max not in seen:
            steps = steps_of(f"{MTP} n_max {n_max}, from {longest.setting}", MTP, rounds, n_max)
            made += [steps] if steps is not None else []
    return made


def _speed_up(own: Sequence[Record], baseline: Sequence[Record]) -> float | None:
    grid = pair(from_records(own), from_records(baseline)) if baseline else None
    return None if grid is None else math.exp(float(grid.ratios.mean()))
