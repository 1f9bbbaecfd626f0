"""Two runs, cell by cell: what changed for each config, and why; or that they cannot be compared. Pure.

Only cells that both runs have are in any number: the same model, config, prompt, temperature, block and pass,
ended well on both sides. All others are counted. Shares and memory are of all of these; speeds, and what is
made of times, are of those that were disturbed on neither side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pytest_ngram.record import ECHO, Cell, Record, Round, RunData
from pytest_ngram.verdict.attribution import Attribution, attribution_of
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.figures import Figure, gain, memory, prompt_seconds, seconds, share, speed
from pytest_ngram.verdict.grid import gap
from pytest_ngram.verdict.interval import Gap
from pytest_ngram.verdict.samples import Sample, from_records, types_of
from pytest_ngram.verdict.setting import Difference, differences, shared_models
from pytest_ngram.verdict.shares import LENGTHS, acceptance, coverage, tokens_per_step, total
from pytest_ngram.verdict.summary import BASELINE

SCHEMA = 1
LEVEL = 0.05
LEAST_BLOCKS = 3
_SHARES: dict[str, Callable[[Sequence[Round]], float | None]] = {
    "acceptance": acceptance,
    "coverage": coverage,
    "tokens_per_step": tokens_per_step,
}
Pairs = list[tuple[Record, Record]]  # old, new


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a config.

    Args:
        config: its id.
        drafts: whether it has a speculative type on any side.
        not_comparable: why there is no number; empty where there are.
        figures: by name (`figures.KINDS`); those of drafts are absent where the config does not draft.
        attribution: of the change of ms per token.
        no_attribution: why there is none.
        cells: on both sides, ended well.
        disturbed: of these, contended or throttled on a side: in no speed.
        only_old, only_new: cells that the other side has not measured.
        ended_old, ended_new: cells that did not end well there while the other side's did, by outcome.
        another_state: cells left out since the server had answered other requests before, and the config's
            types remember those.
        same_answers: cells whose answers have the same tokens on both sides; null where that is not told.
        blocks, prompts: of the cells on both sides.
        doubts: why a speed keeps to no bound, although it has a change.
    """

    config: str
    drafts: bool
    not_comparable: tuple[Reason, ...] = ()
    figures: dict[str, Figure] = {}
    attribution: Attribution | None = None
    no_attribution: tuple[Reason, ...] = ()
    cells: int = 0
    disturbed: int = 0
    only_old: int = 0
    only_new: int = 0
    ended_old: dict[str, int] = {}
    ended_new: dict[str, int] = {}
    another_state: int = 0
    same_answers: int | None = None
    blocks: int = 0
    prompts: int = 0
    doubts: tuple[Reason, ...] = ()


class ModelChange(msgspec.Struct, frozen=True, kw_only=True):
    """A model at one temperature. `configs` have no numbers where they are not comparable."""

    model: str
    temperature: float
    not_comparable: tuple[Reason, ...] = ()
    configs: tuple[ConfigChange, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs. `only_old` and `only_new` name models, or their temperatures, of one side."""

    schema: int = SCHEMA
    old: str
    new: str
    differences: tuple[Difference, ...]
    models: tuple[ModelChange, ...]
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything could be compared."""
        return any(not config.not_comparable for model in self.models for config in model.configs)


def compare(
    old: RunData, new: RunData, *, stateful: frozenset[str] = frozenset(), config_order: Sequence[str] = ()
) -> Comparison:
    """Compare two runs.

    Args:
        old: the one to compare with.
        new: the one that is judged.
        stateful: types that remember requests on a server.
        config_order: of the configs; the others come after these as the new run has them.
    """
    told = differences(old, new)
    sides = [_groups(side.records) for side in (old, new)]
    both = [key for key in sides[1] if key in sides[0]]
    same = set(shared_models(old, new))
    return Comparison(
        old=old.name,
        new=new.name,
        differences=tuple(told),
        models=tuple(_model(key, sides, told, stateful, config_order) for key in sorted(both)),
        only_old=_names(sides[0], both, same),
        only_new=_names(sides[1], both, same),
    )


Key = tuple[str, float]
Groups = dict[Key, dict[str, dict[Cell, Record]]]


def _groups(records: Iterable[Record]) -> Groups:
    """Cells by model and temperature, and config; the place of a start in its block is not part of a cell."""
    groups: Groups = {}
    for record in records:
        if record.cell.prompt_set != ECHO:
            cell = msgspec.structs.replace(record.cell, position=0)
            key = (cell.model, cell.temperature)
            groups.setdefault(key, {}).setdefault(cell.config, {})[cell] = record
    return groups


def _names(side: Groups, both: Sequence[Key], same: set[str]) -> tuple[str, ...]:
    return tuple(
        f"{model}, temperature {temperature:g}" if model in same else model
        for model, temperature in side
        if (model, temperature) not in both
    )


def _model(
    key: Key,
    sides: Sequence[Groups],
    told: Iterable[Difference],
    stateful: frozenset[str],
    config_order: Sequence[str],
) -> ModelChange:
    model, temperature = key
    old, new = (side[key] for side in sides)
    forbidden = tuple(
        _forbidden(each)
        for each in told
        if each.forbids and (each.scope == "host" or (each.scope, each.of) == ("model", model))
    )
    rank = {config: i for i, config in enumerate(dict.fromkeys((BASELINE, *config_order)))}
    names = sorted(dict.fromkeys((*new, *old)), key=lambda name: rank.get(name, len(rank)))
    counted = {name: _count(name, old.get(name, {}), new.get(name, {}), stateful) for name in names}
    if forbidden:
        configs = [
            msgspec.structs.replace(change, not_comparable=forbidden) for change, _ in counted.values()
        ]
        return ModelChange(
            model=model, temperature=temperature, not_comparable=forbidden, configs=tuple(configs)
        )
    samples = {
        name: _samples(pairs) for name, (change, pairs) in counted.items() if not change.not_comparable
    }
    made = [
        _measured(change, pairs, samples) if not change.not_comparable else change
        for change, pairs in counted.values()
    ]
    return ModelChange(model=model, temperature=temperature, configs=tuple(made))


def _forbidden(each: Difference) -> Reason:
    if each.scope == "host":
        return reason("another-host", what=each.what, old=each.old, new=each.new)
    code = {
        "model file": "another-model",
        "flags of the model": "another-flags",
        "n_predict": "another-n-predict",
        "prompt ids": "another-prompts",
    }[each.what]
    values = {"old": each.old, "new": each.new, "model": each.of}
    wanted = {"another-model": ("model", "old", "new"), "another-prompts": ("new",)}.get(code, ("old", "new"))
    return reason(code, **{name: values[name] for name in wanted})


def _count(
    config: str, old: Mapping[Cell, Record], new: Mapping[Cell, Record], stateful: frozenset[str]
) -> tuple[ConfigChange, Pairs]:
    """The cells of a config that both sides have, and what is left out."""
    shared = [(old[cell], new[cell]) for cell in new if cell in old]
    good = [(a, b) for a, b in shared if a.outcome.status == b.outcome.status == "ok"]
    types = {name for record in (*old.values(), *new.values()) for name in types_of(record)}
    apart = [(a, b) for a, b in good if types & stateful and _before(a, old) != _before(b, new)]
    pairs = [pair for pair in good if pair not in apart]
    change = ConfigChange(
        config=config,
        drafts=bool(types),
        cells=len(pairs),
        only_old=len(old) - len(shared),
        only_new=len(new) - len(shared),
        ended_old=_ended(a for a, b in shared if b.outcome.status == "ok"),
        ended_new=_ended(b for a, b in shared if a.outcome.status == "ok"),
        another_state=len(apart),
        same_answers=_same_answers(pairs),
        blocks=len({a.cell.block for a, _ in pairs}),
        prompts=len({a.cell.prompt for a, _ in pairs}),
    )
    return msgspec.structs.replace(change, not_comparable=_nothing(change, pairs, len(old), len(new))), pairs


def _before(record: Record, own: Mapping[Cell, Record]) -> tuple[int, tuple[str, ...]] | None:
    """What its server had answered before a cell: how many requests, and to which prompts of the config."""
    server = record.server
    if server is None:
        return None
    earlier = sorted(
        (each.server.answered, each.cell.prompt)
        for each in own.values()
        if each.server and each.server.serial == server.serial and each.server.answered < server.answered
    )
    return server.answered, tuple(prompt for _, prompt in earlier)


def _ended(records: Iterable[Record]) -> dict[str, int]:
    counts = Counter(record.outcome.status for record in records if record.outcome.status != "ok")
    return dict(sorted(counts.items()))


def _same_answers(pairs: Pairs) -> int | None:
    texts = [[[each.tokens or each.text_sha256 for each in r.rounds] for r in pair] for pair in pairs]
    if not texts or any(None in side for pair in texts for side in pair):
        return None
    return sum(old == new for old, new in texts)


def _nothing(change: ConfigChange, pairs: Pairs, old: int, new: int) -> tuple[Reason, ...]:
    if change.another_state and not pairs:
        return (reason("another-state", cells=change.another_state),)
    if not pairs:
        return (reason("no-shared-cells", old=old, new=new),)
    drafted = sum(each.drafted or 0 for pair in pairs for record in pair for each in record.rounds)
    known = all(each.drafted is not None for pair in pairs for record in pair for each in record.rounds)
    if change.drafts and known and not drafted:
        return (reason("no-draft-on-either-side", baseline=BASELINE),)
    return ()


def _samples(pairs: Pairs) -> tuple[list[Sample], list[Sample]]:
    """Samples of the cells that were disturbed on neither side."""
    old, new = from_records(a for a, _ in pairs), from_records(b for _, b in pairs)
    usable = [(a, b) for a, b in zip(old, new, strict=True) if a.usable and b.usable]
    return [a for a, _ in usable], [b for _, b in usable]


def _measured(
    change: ConfigChange, pairs: Pairs, samples: Mapping[str, tuple[list[Sample], list[Sample]]]
) -> ConfigChange:
    old, new = samples[change.config]
    told = [(a, b) for a, b in pairs if not (_is_disturbed(a) or _is_disturbed(b))]
    rounds = [[r for pair in told for r in pair[side].rounds] for side in (0, 1)]
    attribution, why = attribution_of(*rounds)
    every = (from_records(a for a, _ in pairs), from_records(b for _, b in pairs))
    figures = {
        "tg": speed(old, new, seconds, _gap(samples, seconds), LEVEL),
        "pp": speed(old, new, prompt_seconds, _gap(samples, prompt_seconds), LEVEL),
        "rss": memory(*every, LEVEL),
    }
    if change.config != BASELINE:
        figures["gain"] = gain(samples, change.config, BASELINE, _gap(samples, seconds), LEVEL)
    if change.drafts:
        records = ([a for a, _ in pairs], [b for _, b in pairs])
        figures |= {name: share(*records, of, name, LEVEL) for name, of in _SHARES.items()}
    return msgspec.structs.replace(
        change,
        figures=figures,
        attribution=attribution,
        no_attribution=why,
        disturbed=len(pairs) - len(told),
        doubts=tuple(_doubts(change, told, rounds)),
    )


def _doubts(change: ConfigChange, told: Pairs, rounds: Sequence[Sequence[Round]]) -> list[Reason]:
    """A few of the prompts that both sides measured, and answers of other lengths, tell of no other speed."""
    found = []
    prompts = len({a.cell.prompt for a, _ in told})
    if told and 2 * prompts <= change.prompts:
        found.append(reason("few-of-the-prompts", prompts=prompts, asked=change.prompts))
    old, new = (total(side, "predicted_n") for side in rounds)
    if old and new and max(old, new) > LENGTHS * min(old, new):
        found.append(reason("other-lengths", own=new / len(rounds[1]), base=old / len(rounds[0])))
    return found


def _is_disturbed(record: Record) -> bool:
    return from_records([record])[0].disturbed is not None


def _gap(
    samples: Mapping[str, tuple[list[Sample], list[Sample]]], of: Callable[[Sample], float | None]
) -> Gap | None:
    """The gaps between the baseline's passes, of both runs together."""
    gaps = [gap(side, of) for side in samples.get(BASELINE, ())]
    per_block = [each for found in gaps if found is not None for each in found.per_block]
    return Gap(tuple(per_block)) if per_block else None
