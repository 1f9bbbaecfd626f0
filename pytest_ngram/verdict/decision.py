"""From an effect to adopt / do not adopt / cannot tell, each reason as a code with its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.effect import Known, Measured
from pytest_ngram.verdict.interval import MOST, blocks_needed, prompts_needed
from pytest_ngram.verdict.samples import DISTURBED
from pytest_ngram.verdict.shares import LENGTHS
from pytest_ngram.verdict.types import Decision, Effect, GateResults, Settings

BAD_ENDS = ("crash", "hang", "oom")  # of the engine; what the harness refused speaks against no config
_BLOCKS_WITH_PROMPTS = (10, 20, 50, MOST)  # that more prompts are asked for with: the first that do


class Speed(msgspec.Struct, frozen=True):
    """What the speed alone says. `more_*` are asked for where it cannot tell."""

    decision: Decision
    reasons: tuple[Reason, ...]
    more_blocks: int | None = None
    more_prompts: int | None = None


def speed(measured: Measured, settings: Settings, p_holm: float | None, configs: int) -> Speed:
    """Judge tg alone.

    Args:
        measured: the effect.
        settings: of the verdict.
        p_holm: its p-value among all configs; None judges it alone.
        configs: how many these are.
    """
    early = _too_little(measured, settings)
    if early is not None:
        return early
    known = measured.known(settings)
    if known is None:
        return Speed("cannot tell", (reason("no-floor", baseline=settings.baseline),))
    covers = _covers(known, settings)
    if covers:
        more = _more(known, measured.starts, settings, distance=known.distance, level=settings.level)
        return msgspec.structs.replace(more, reasons=(*covers, *more.reasons))
    if known.span.gain > settings.threshold:
        return _gains(known, measured.starts, settings, p_holm, configs)
    return _loses(known, settings, p_holm)


def _too_little(measured: Measured, settings: Settings) -> Speed | None:
    """Say what is too little to tell anything, whatever the numbers are."""
    effect, of = measured.effect, measured.fit
    if of is None:
        return Speed("cannot tell", (_nothing(effect),))
    if of.blocks < settings.least_blocks:
        more = settings.least_blocks - of.blocks
        few = reason("too-few-blocks", blocks=of.blocks, least=settings.least_blocks, more=more)
        return Speed("cannot tell", (few,), more_blocks=more)
    return Speed("cannot tell", (reason("one-prompt"),)) if of.prompts < 2 else None


def _nothing(effect: Effect) -> Reason:
    disturbed = {why: n for why, n in effect.excluded.items() if why in DISTURBED}
    if not disturbed:
        return reason("nothing-to-compare", config=effect.config, against=effect.against)
    return reason("all-disturbed", against=effect.against, outcomes=counts(disturbed))


def _covers(known: Known, settings: Settings) -> tuple[Reason, ...]:
    """What the threshold lies within: the interval, or as near to the estimate as the floor is wide."""
    found = []
    span, threshold = known.span, settings.threshold
    if span.low <= threshold <= span.high:
        found.append(reason("interval-covers-threshold", low=span.low, high=span.high, threshold=threshold))
    if known.distance <= known.floor_log:
        floor = math.expm1(known.floor_log)
        found.append(reason("floor-covers-threshold", gain=span.gain, floor=floor, threshold=threshold))
    return tuple(found)


def _more(known: Known, starts: float, settings: Settings, *, distance: float, level: float) -> Speed:
    """What would be needed to tell: blocks, or prompts where no number of blocks is enough."""
    of, gap = known.fit, known.gap
    needed = blocks_needed(of, gap, starts, distance=distance, level=level, power=settings.power)
    if needed is not None:
        more = max(1, needed - of.blocks)
        return Speed("cannot tell", (reason("more-blocks", blocks=of.blocks, more=more),), more_blocks=more)
    for blocks in _BLOCKS_WITH_PROMPTS:
        prompts = prompts_needed(of, distance=distance, level=level, blocks=blocks)
        if prompts is None or blocks < of.blocks or gap.floor(settings.level, starts, blocks) >= distance:
            continue
        more = prompts - of.prompts
        wanted = reason("more-prompts", prompts=of.prompts, more_prompts=more, blocks=blocks)
        return Speed("cannot tell", (wanted,), blocks - of.blocks, more)
    return Speed("cannot tell", (reason("too-close", most=MOST),))


def _gains(known: Known, starts: float, settings: Settings, p_holm: float | None, configs: int) -> Speed:
    span, threshold = known.span, settings.threshold
    if p_holm is not None and p_holm > settings.level:
        # the smallest of so many p-values has to be so small, at worst
        level = settings.level / configs
        more = _more(known, starts, settings, distance=abs(known.fit.value), level=level)
        chance = reason("chance-of-several", p=p_holm, configs=configs)
        return msgspec.structs.replace(more, reasons=(chance, *more.reasons))
    if known.weighted <= threshold:
        weighted = reason(
            "token-weighted-disagrees", gain=span.gain, weighted=known.weighted, threshold=threshold
        )
        return Speed("cannot tell", (weighted,))
    floor = math.expm1(known.floor_log)
    why = reason("gain", gain=span.gain, low=span.low, high=span.high, threshold=threshold, floor=floor)
    return Speed("adopt", (why,))


def _loses(known: Known, settings: Settings, p_holm: float | None) -> Speed:
    span = known.span
    sure = p_holm is None or p_holm <= settings.level
    if span.high < 0 and sure and known.fit.value < -known.floor_log:
        why = reason("slower", gain=span.gain, low=span.low, high=span.high)
    else:
        why = reason("gain-too-small", gain=span.gain, high=span.high, threshold=settings.threshold)
    return Speed("do not adopt", (why,))


def decide(
    effect: Effect, by_speed: Speed, settings: Settings, gates: GateResults | None, model: str
) -> Effect:
    """Return the effect with its decision: the speed's, unless something else stands against it.

    What forbids (a gate, an end that was the engine's, a cost beyond its limit) makes it "do not adopt",
    whatever the speed. What is not sure (a cost near its limit, a kind of prompt that loses, a part of the
    prompts, answers of other lengths) makes an "adopt" "cannot tell". Gates that were not run, or did not
    judge the config, forbid nothing; they are told with each "adopt", and so are llama.cpp's known issues.
    """
    against, unsure, told = _costs(effect, settings)
    against = [*_ended(effect), *_gates(effect, gates, model), *against]
    unsure += [*_part(effect), *_losing(effect.strata)]
    decision: Decision = by_speed.decision
    reasons = [*by_speed.reasons]
    if against:
        decision, reasons = "do not adopt", [*against, *reasons]
    elif decision == "adopt" and unsure:
        decision, reasons = "cannot tell", [*unsure, *reasons]
    if decision == "adopt":
        reasons += told
        reasons += _told_of_gates(effect, gates, model)
    return msgspec.structs.replace(
        effect,
        decision=decision,
        reasons=(*reasons, *_left_out(effect)),
        more_blocks=by_speed.more_blocks if decision == "cannot tell" else None,
        more_prompts=by_speed.more_prompts if decision == "cannot tell" else None,
    )


def _ended(effect: Effect) -> list[Reason]:
    bad = {status: n for status, n in effect.excluded.items() if status in BAD_ENDS}
    found = [reason("ended-badly", cells=sum(bad.values()), outcomes=counts(bad))] if bad else []
    if effect.excluded.get("inert"):
        found.append(reason("inert", cells=effect.excluded["inert"]))
    return found


def counts(by_name: Mapping[str, int]) -> str:
    """Return counts with their names, for a reason's value."""
    return ", ".join(f"{n} {name}" for name, n in by_name.items())


def _gates(effect: Effect, gates: GateResults | None, model: str) -> list[Reason]:
    return [
        reason("gate-failed", gate=each.gate, what=each.what)
        for each in (gates.failures if gates is not None else ())
        if each.model in (None, model) and each.config in (None, effect.config)
    ]


def _told_of_gates(effect: Effect, gates: GateResults | None, model: str) -> list[Reason]:
    """What an "adopt" has to say of the gates, beside that they passed."""
    if gates is None:
        return [reason("gates-not-run")]
    told = [] if (model, effect.config) in gates.judged else [reason("no-gate-judged")]
    return told + [
        reason(each.code, gate=each.gate, what=each.what)
        for each in gates.notes
        if each.model in (None, model) and each.config in (None, effect.config)
    ]


def _costs(effect: Effect, settings: Settings) -> tuple[list[Reason], list[Reason], list[Reason]]:
    """What forbids, what makes unsure, and what is only told: so is what is not known."""
    against: list[Reason] = []
    unsure: list[Reason] = []
    told: list[Reason] = []
    if effect.rss is None or effect.rss_more_mb is None:
        told.append(reason("rss-unknown", limit=settings.rss_gain))
    elif effect.rss > 1 + settings.rss_gain and effect.rss_more_mb >= settings.rss_least_mb:
        more_mb, least_mb = effect.rss_more_mb, settings.rss_least_mb
        limit = settings.rss_gain
        against.append(
            reason("rss-gain", change=effect.rss - 1, more_mb=more_mb, limit=limit, least_mb=least_mb)
        )
    pp = effect.pp.span if effect.pp is not None else None
    if pp is None:
        told.append(reason("pp-unknown", limit=settings.pp_loss))
        return against, unsure, told
    least = -settings.pp_loss
    if pp.high < least:
        against.append(reason("pp-loss", change=pp.gain, limit=settings.pp_loss))
    elif pp.gain < least:
        unsure.append(
            reason("pp-loss-unsure", change=pp.gain, low=pp.low, high=pp.high, limit=settings.pp_loss)
        )
    elif pp.low < least:
        told.append(reason("pp-loss-possible", low=pp.low, limit=settings.pp_loss))
    return against, unsure, told


def _part(effect: Effect) -> list[Reason]:
    """What entered but is not what was asked for: no draft, half of the prompts, answers of other lengths."""
    found = [reason("drafted-nothing", against=effect.against)] if effect.idle else []
    asked = effect.n_prompts + len(effect.lost_prompts)
    if 2 * effect.n_prompts <= asked:
        found.append(reason("few-of-the-prompts", prompts=effect.n_prompts, asked=asked))
    own, base = effect.tokens, effect.tokens_against
    if own and base and max(own, base) > LENGTHS * min(own, base):
        found.append(reason("other-lengths", own=own, base=base))
    return found


def _losing(strata: Mapping[str, Effect]) -> list[Reason]:
    """The kinds of prompts on which the config is proven to be slower."""
    found = []
    for name, effect in strata.items():
        lost = effect.span
        if lost is not None and any(each.code == "slower" for each in effect.reasons):
            found.append(reason("stratum-loses", stratum=name, gain=lost.gain, low=lost.low, high=lost.high))
    return found


def _left_out(effect: Effect) -> list[Reason]:
    """What did not enter, whatever was decided."""
    found = []
    others = {why: n for why, n in effect.excluded.items() if why not in (*BAD_ENDS, "inert")}
    if others:
        found.append(reason("cells-excluded", cells=sum(others.values()), outcomes=counts(others)))
    if effect.n_cells and effect.lost_prompts:
        found.append(reason("prompts-left-out", prompts=_listed(effect.lost_prompts)))
    if effect.n_cells and effect.lost_blocks:
        found.append(reason("blocks-left-out", blocks=_listed(effect.lost_blocks)))
    if effect.filled:
        found.append(reason("cells-filled", cells=effect.filled))
    return found


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))
