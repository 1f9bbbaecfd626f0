"""Cells to a verdict: for each model and temperature, each config against the baseline. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pytest_ngram.verdict.answer import answer
from pytest_ngram.verdict.corpus import judge_corpus
from pytest_ngram.verdict.decision import decide, speed
from pytest_ngram.verdict.effect import Measured, excluded, measure
from pytest_ngram.verdict.grid import gap
from pytest_ngram.verdict.interval import Gap, holm
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect, Floor, GateResults, ModelVerdict, Settings, Verdict

DEFAULTS = Settings()
_BOTH_PASSES = 1.5  # 1/1 + 1/2 server starts of a block: a config against the two passes of the baseline
Configs = Mapping[str, Sequence[Sample]]


def judge(
    samples: Iterable[Sample],
    settings: Settings = DEFAULTS,
    gates: GateResults | None = None,
    config_order: Sequence[str] = (),
) -> Verdict:
    """Return the verdict over cells of one run. The same cells, in whatever order, make the same verdict.

    Args:
        samples: of the cells, also of those that failed: they are counted.
        settings: thresholds and limits.
        gates: what they found on the build that was measured; None where they were not run.
        config_order: of the effects; the others come after these, by name.
    """
    groups: dict[tuple[str, float], dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        groups[sample.model, sample.temperature][sample.config].append(sample)
    rank = {config: i for i, config in enumerate(config_order)}
    models = tuple(
        _model(
            key,
            {name: configs[name] for name in sorted(configs, key=lambda n: (rank.get(n, len(rank)), n))},
            settings,
            gates,
        )
        for key, configs in sorted(groups.items())
    )
    return Verdict(settings, gates, models)


def _model(
    key: tuple[str, float], configs: Configs, settings: Settings, gates: GateResults | None
) -> ModelVerdict:
    model, temperature = key
    baseline = configs.get(settings.baseline, ())
    apart = gap(baseline)
    others = {name: own for name, own in configs.items() if name != settings.baseline}
    found = [measure(own, baseline, apart, settings) for own in others.values()] if baseline else []
    strata = {name: _strata(own, baseline, settings) for name, own in others.items()}
    effects = _decided(found, strata, settings, gates, model)
    said, best, ties = answer(effects, configs, apart, settings)
    return ModelVerdict(
        model=model,
        temperature=temperature,
        answer=said,
        best=best,
        ties=ties,
        floor=_floor(apart, settings),
        effects=effects,
        corpus=judge_corpus(others, apart, settings),
        excluded=excluded(sample for own in configs.values() for sample in own),
    )


def _decided(
    found: Sequence[Measured],
    strata: Mapping[str, dict[str, Effect]],
    settings: Settings,
    gates: GateResults | None,
    model: str,
) -> tuple[Effect, ...]:
    known = [each.effect.p for each in found if each.effect.p is not None]
    adjusted = iter(holm(known))
    made = []
    for each in found:
        p_holm = next(adjusted) if each.effect.p is not None else None
        effect = msgspec.structs.replace(each.effect, p_holm=p_holm, strata=strata[each.effect.config])
        by_speed = speed(each, settings, p_holm, len(known))
        made.append(decide(effect, by_speed, settings, gates, model))
    return tuple(made)


def _strata(own: Sequence[Sample], baseline: Sequence[Sample], settings: Settings) -> dict[str, Effect]:
    """The same effect by kind of prompt, with a floor of its own; without kinds that all prompts are of."""
    kinds: dict[str, list[Sample]] = defaultdict(list)
    for sample in own:
        for name in sample.strata:
            kinds[name].append(sample)
    made = {}
    for name, part in sorted(kinds.items()):
        if len(part) == len(own):
            continue
        base = [sample for sample in baseline if name in sample.strata]
        each = measure(part, base, gap(base), settings)
        by_speed = speed(each, settings, None, 1)
        made[name] = msgspec.structs.replace(
            each.effect,
            decision=by_speed.decision,
            reasons=by_speed.reasons,
            more_blocks=by_speed.more_blocks,
            more_prompts=by_speed.more_prompts,
        )
    return made


def _floor(apart: Gap | None, settings: Settings) -> Floor | None:
    if apart is None:
        return None
    blocks = len(apart.per_block)
    return Floor(
        bound=math.expm1(apart.floor(settings.level, _BOTH_PASSES, blocks)),
        worst=math.expm1(max(map(abs, apart.per_block))),
        blocks=blocks,
    )


__all__ = ["Configs", "judge"]
