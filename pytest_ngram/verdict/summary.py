"""Cells to one row per model and config: what the terminal table and reports show.

Every prompt weighs the same: the tg of a set of cells is 1 ÷ the mean of their seconds per token, which is
also pytest-benchmark's OPS of one cell. Only cells whose outcome is `ok` enter; how many did not is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from pytest_ngram.record import Record, Round

BASELINE = "none"
Key = tuple[str, float, int]  # prompt, temperature, block: what a cell shares with its baseline


class Spread(msgspec.Struct, frozen=True):
    """A value and its lowest and highest over blocks; the three are equal where there is one block."""

    value: float
    low: float
    high: float
    blocks: int


class Row(msgspec.Struct, frozen=True):
    """One config of one model. Speeds in tokens/s, `change` as a ratio − 1, shares from 0 to 1, MiB."""

    config: str
    tg: Spread | None
    change: Spread | None
    acceptance: float | None
    coverage: float | None
    tokens_per_step: float | None
    pp: float | None
    rss_mb: float | None
    cells: int
    failed: dict[str, int]


class ModelSummary(msgspec.Struct, frozen=True):
    """All rows of a model. `noise` is |first ÷ last − 1| of `none`'s seconds per token, worst block."""

    model: str
    rows: tuple[Row, ...]
    noise: float | None
    prompts: int


def seconds_per_token(round_: Round) -> float | None:
    """predicted_ms ÷ (predicted_n − 1), in seconds; null where one token or none was generated.

    The first token comes out of the prompt's own decode, so n tokens take n − 1 steps of generation.
    """
    n, ms = round_.predicted_n, round_.predicted_ms
    if n is None or ms is None or n < 2 or ms <= 0:
        return None
    return ms / 1000 / (n - 1)


def summarise(records: Iterable[Record], config_order: Sequence[str] = ()) -> list[ModelSummary]:
    """Return one summary per model.

    Args:
        records: cells of one run.
        config_order: config ids in the order of their rows, as the matrix has them; the others come after
            these, in the order in which they were first seen. Blocks shuffle the configs, a table should not.
    """
    by_model: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        by_model[record.cell.model][record.cell.config].append(record)
    rank = {config: i for i, config in enumerate(config_order)}
    return [
        _model(model, dict(sorted(configs.items(), key=lambda item: rank.get(item[0], len(rank)))))
        for model, configs in by_model.items()
    ]


def _model(model: str, configs: dict[str, list[Record]]) -> ModelSummary:
    baseline = _by_key(configs.get(BASELINE, []))
    names = sorted(configs, key=lambda name: name != BASELINE)
    return ModelSummary(
        model=model,
        rows=tuple(_row(name, configs[name], baseline) for name in names),
        noise=_noise(configs.get(BASELINE, [])),
        prompts=len({(r.cell.prompt, r.cell.temperature) for rs in configs.values() for r in rs}),
    )


def _row(config: str, records: Sequence[Record], baseline: dict[Key, float]) -> Row:
    rounds = [round_ for record in records if record.outcome.status == "ok" for round_ in record.rounds]
    failed: dict[str, int] = defaultdict(int)
    for record in records:
        if record.outcome.status != "ok":
            failed[record.outcome.status] += 1
    own = _by_key(records)
    return Row(
        config=config,
        tg=_tg(own),
        change=None if config == BASELINE else _change(own, baseline),
        acceptance=_ratio(_sum(rounds, "accepted"), _sum(rounds, "drafted")),
        coverage=_ratio(_sum(rounds, "verify_steps"), _forward_steps(rounds)),
        tokens_per_step=_ratio(_generated(rounds), _sum(rounds, "steps")),
        pp=_per_second(rounds),
        rss_mb=_rss(records),
        cells=len(records),
        failed=dict(failed),
    )


def _by_key(records: Iterable[Record]) -> dict[Key, float]:
    """Seconds per token by prompt, temperature and block; the mean over rounds and both passes of `none`."""
    found: dict[Key, list[float]] = defaultdict(list)
    for record in records:
        values = [seconds_per_token(round_) for round_ in record.rounds]
        known = [value for value in values if value is not None]
        if record.outcome.status == "ok" and known:
            found[record.cell.prompt, record.cell.temperature, record.cell.block].append(fmean(known))
    return {key: fmean(values) for key, values in found.items()}


def _tg(own: dict[Key, float]) -> Spread | None:
    if not own:
        return None
    blocks = _blocks(own)
    return _spread(1 / fmean(own.values()), [1 / fmean(own[key] for key in keys) for keys in blocks])


def _change(own: dict[Key, float], baseline: dict[Key, float]) -> Spread | None:
    """Speed against `none`, over the prompts that both have in the same block, and nothing else."""
    shared = {key: own[key] for key in own if key in baseline}
    if not shared:
        return None

    def ratio(keys: Iterable[Key]) -> float:
        keys = list(keys)
        return fmean(baseline[key] for key in keys) / fmean(own[key] for key in keys) - 1

    return _spread(ratio(shared), [ratio(keys) for keys in _blocks(shared)])


def _blocks(own: dict[Key, float]) -> list[list[Key]]:
    blocks: dict[int, list[Key]] = defaultdict(list)
    for key in own:
        blocks[key[2]].append(key)
    return list(blocks.values())


def _spread(value: float, per_block: Sequence[float]) -> Spread:
    return Spread(value=value, low=min(per_block), high=max(per_block), blocks=len(per_block))


def _noise(records: Iterable[Record]) -> float | None:
    """How far the two passes of `none` lie apart in their worst block: no smaller change is one."""
    passes: dict[int, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        passes[record.cell.block][record.cell.pass_].append(record)
    gaps = []
    for block in passes.values():
        first, last = _by_key(block.get("first", [])), _by_key(block.get("last", []))
        shared = first.keys() & last.keys()
        if shared:
            gaps.append(abs(fmean(first[key] for key in shared) / fmean(last[key] for key in shared) - 1))
    return max(gaps, default=None)


def _sum(rounds: Iterable[Round], field: str) -> int | None:
    """Null where any round does not know the value: a partial sum would pass for a whole one."""
    values = [getattr(round_, field) for round_ in rounds]
    return None if not values or None in values else sum(values)


def _forward_steps(rounds: Sequence[Round]) -> int | None:
    """Plain and verify steps: all steps without the replays."""
    steps, replays = _sum(rounds, "steps"), _sum(rounds, "replays")
    return None if steps is None or replays is None else steps - replays


def _generated(rounds: Sequence[Round]) -> int | None:
    """Tokens that came out of steps: all but the first of each round."""
    predicted = _sum(rounds, "predicted_n")
    return None if predicted is None else predicted - len(rounds)


def _ratio(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _per_second(rounds: Sequence[Round]) -> float | None:
    times = [round_.prompt_ms for round_ in rounds if round_.prompt_ms is not None]
    tokens = _sum(rounds, "prompt_n")
    if tokens is None or len(times) < len(rounds) or sum(times) <= 0:
        return None
    return tokens / (sum(times) / 1000)


def _rss(records: Iterable[Record]) -> float | None:
    sizes = []
    for record in records:
        memory = record.memory
        if memory is not None and memory.rss_anon_mb is not None and memory.rss_file_mb is not None:
            sizes.append(memory.rss_anon_mb + memory.rss_file_mb)
    return max(sizes, default=None)
