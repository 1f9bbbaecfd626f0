"""Cells to one row per model, temperature and config: what the terminal table and reports show.

Every prompt weighs the same: the tg of a set of cells is 1 ÷ the mean of their seconds per token, which is
also pytest-benchmark's OPS of one cell. A row is made of a full grid, prompts × blocks: a block in which a
prompt was not reached is left out, and so is a prompt that did not end well in each of the other blocks.
Otherwise a config that crashes on a slow prompt would look the faster for it. How much is left out is told.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from pytest_ngram.record import ECHO, Cost, Record, Round
from pytest_ngram.verdict.contention import is_contended, is_throttled, keeps_state
from pytest_ngram.verdict.cost import means
from pytest_ngram.verdict.shares import acceptance, coverage, mean_of, quotient, tokens_per_step, total

BASELINE = "none"
APART = 0.05  # of the client's wall that is not the server's time, from where on it is told
APART_S = 0.02  # and at least this long: sending a request and reading its answer take some milliseconds
Key = tuple[str, int]  # prompt, block


class Spread(msgspec.Struct, frozen=True):
    """A value and its lowest and highest over blocks; the three are equal where there is one block."""

    value: float
    low: float
    high: float
    blocks: int


class Row(msgspec.Struct, frozen=True):
    """One config of one model. Speeds in tokens/s, `change` as a ratio − 1, shares from 0 to 1, MiB.

    `prompts` of the model's prompts entered, and `prompts_of_change` into the change; `failed` counts cells
    by outcome. `abstained` says why a config drafted nothing where that was expected of it.

    `tokens_per_step` counts all steps, `mean_accepted_length` verify steps only, the token that the target
    adds counted in. `acceptance_per_pos`: of all verify steps, the share that accepted the token there.
    `cost` is the mean over requests, `step_ms` the mean time of a step by the tokens that it verifies.
    """

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
    prompts: int
    prompts_of_change: int
    abstained: str | None = None
    mean_accepted_length: float | None = None
    acceptance_per_pos: tuple[float, ...] | None = None
    cost: Cost | None = None
    step_ms: dict[int, float] = {}


class ModelSummary(msgspec.Struct, frozen=True):
    """All rows of a model at one temperature.

    `noise` is what the slower pass of `none` would gain by being the faster one, worst block. `contended`
    counts cells that others disturbed, `throttled` those that met a machine too hot, `repeated` requests that
    were measured again for that, `stateful` cells that were not since they keep state, `paged` cells during
    which the engine read from disk, `apart` those of whose wall the server's own time is 5 % less or more,
    `unread` those without a trace.
    """

    model: str
    temperature: float
    rows: tuple[Row, ...]
    noise: float | None
    prompts: int
    contended: int
    paged: int
    apart: int = 0
    throttled: int = 0
    repeated: int = 0
    stateful: int = 0
    unread: tuple[str, ...] = ()


def seconds_per_token(round_: Round) -> float | None:
    """predicted_ms ÷ (predicted_n − 1), in seconds; null where one token or none was generated.

    The first token comes out of the prompt's own decode, so n tokens take n − 1 steps of generation.
    """
    n, ms = round_.predicted_n, round_.predicted_ms
    if n is None or ms is None or n < 2 or ms <= 0:
        return None
    return ms / 1000 / (n - 1)


def summarise(
    records: Iterable[Record], config_order: Sequence[str] = (), *, echo: bool = False
) -> list[ModelSummary]:
    """Return one summary per model and temperature.

    Args:
        records: cells of one run. Those of prompts out of a table's corpus are left out.
        config_order: config ids in the order of their rows, as the matrix has them; the others come after
            these, in the order in which they were first seen. Blocks shuffle the configs, a table should not.
        echo: take the prompts out of a table's corpus instead, and no others.
    """
    groups: dict[tuple[str, float], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if (record.cell.prompt_set == ECHO) is echo:
            groups[record.cell.model, record.cell.temperature][record.cell.config].append(record)
    rank = {config: i for i, config in enumerate(config_order)}
    return [
        _model(
            model, temperature, dict(sorted(configs.items(), key=lambda item: rank.get(item[0], len(rank))))
        )
        for (model, temperature), configs in groups.items()
    ]


def _model(model: str, temperature: float, configs: dict[str, list[Record]]) -> ModelSummary:
    records = [record for own in configs.values() for record in own]
    baseline = configs.get(BASELINE, [])
    names = sorted(configs, key=lambda name: name != BASELINE)
    return ModelSummary(
        model=model,
        temperature=temperature,
        rows=tuple(_row(name, configs[name], baseline) for name in names),
        noise=_noise(baseline),
        prompts=len({record.cell.prompt for record in records}),
        contended=sum(map(is_contended, records)),
        throttled=sum(map(is_throttled, records)),
        repeated=sum(r.disturbance.repeats for r in records if r.disturbance is not None),
        stateful=sum(map(keeps_state, records)),
        paged=sum(bool(record.memory and record.memory.majflt) for record in records),
        apart=sum(any(_apart(round_) for round_ in record.rounds) for record in records),
        unread=_unread(records),
    )


def _row(config: str, records: Sequence[Record], baseline: Sequence[Record]) -> Row:
    own = _grid(records)
    both = _overlap(own, _grid(baseline)) if config != BASELINE else {}
    entered = [record for record in records if (record.cell.prompt, record.cell.block) in own]
    rounds = [round_ for record in entered for round_ in record.rounds]
    failed: dict[str, int] = defaultdict(int)
    for record in records:
        if record.outcome.status != "ok":
            failed[record.outcome.status] += 1
    return Row(
        config=config,
        tg=_spread({key: (1.0, seconds) for key, seconds in own.items()}),
        change=_spread(both, minus=1.0),
        acceptance=acceptance(rounds),
        coverage=coverage(rounds),
        tokens_per_step=tokens_per_step(rounds),
        pp=_per_second(rounds),
        rss_mb=_rss(entered),
        cells=len(records),
        failed=dict(failed),
        prompts=len({prompt for prompt, _block in own}),
        prompts_of_change=len({prompt for prompt, _block in both}),
        abstained=next((r.outcome.reason for r in records if r.outcome.status == "ok"), None),
        mean_accepted_length=_mean_accepted_length(rounds),
        acceptance_per_pos=_per_position(rounds),
        cost=means([r.telemetry.cost for r in rounds if r.telemetry is not None and r.telemetry.cost]),
        step_ms=_step_ms(rounds),
    )


def _grid(records: Iterable[Record]) -> dict[Key, float]:
    """Seconds per token of each prompt in each block, for the full grid of prompts × blocks that ended well.

    Worked example: prompts p, q in blocks 1, 2, 3; q crashed in block 1, the run was stopped before q in
    block 3. Block 3 is not whole, and q is not ok in blocks 1 and 2, so p in blocks 1 and 2 is left.
    """
    cells: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        cells[record.cell.prompt, record.cell.block].append(record)
    prompts = {prompt for prompt, _block in cells}
    blocks = [b for b in sorted({block for _prompt, block in cells}) if all((p, b) in cells for p in prompts)]
    grid: dict[Key, float] = {}
    for prompt in prompts:
        row = {(prompt, block): _seconds(cells[prompt, block]) for block in blocks}
        whole = {key: value for key, value in row.items() if value is not None}
        if len(whole) == len(row):
            grid |= whole
    return grid


def _seconds(records: Sequence[Record]) -> float | None:
    """Mean over rounds, and over both passes of `none`; None unless all of them ended well."""
    if not all(record.outcome.status == "ok" for record in records):
        return None
    return mean_of(seconds_per_token(round_) for record in records for round_ in record.rounds)


def _overlap(own: dict[Key, float], baseline: dict[Key, float]) -> dict[Key, tuple[float, float]]:
    """Baseline and own seconds per token, on the full grid that both have."""
    prompts = {p for p, _ in own} & {p for p, _ in baseline}
    blocks = {b for _, b in own} & {b for _, b in baseline}
    return {(p, b): (baseline[p, b], own[p, b]) for p in prompts for b in blocks}


def _spread(pairs: dict[Key, tuple[float, float]], *, minus: float = 0.0) -> Spread | None:
    """Mean of the first numbers ÷ mean of the second, over all, and its range over blocks."""
    if not pairs:
        return None
    by_block: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for (_prompt, block), pair in pairs.items():
        by_block[block].append(pair)

    def ratio(of: Iterable[tuple[float, float]]) -> float:
        above, below = zip(*of, strict=True)
        return fmean(above) / fmean(below) - minus

    per_block = [ratio(of) for of in by_block.values()]
    return Spread(value=ratio(pairs.values()), low=min(per_block), high=max(per_block), blocks=len(per_block))


def _noise(records: Sequence[Record]) -> float | None:
    """How far the two passes of `none` lie apart in their worst block: no smaller change is one.

    Told as a change, slower ÷ faster − 1, so that it can stand beside one: 1.1 s and 0.9 s differ by 22 %.
    """
    first, last = (_grid(r for r in records if r.cell.pass_ == pass_) for pass_ in ("first", "last"))
    spread = _spread(_overlap(first, last))
    return None if spread is None else max(spread.high, 1 / spread.low) - 1


def _apart(round_: Round) -> bool:
    """Whether the client waited for much longer, or shorter, than the server says that it worked."""
    share = round_.telemetry.server_share if round_.telemetry else None
    off = 0.0 if share is None else abs(1 - share)
    return off > APART and off * (round_.wall_s or 0.0) > APART_S


def _unread(records: Iterable[Record]) -> tuple[str, ...]:
    told = [round_.telemetry for record in records for round_ in record.rounds]
    return tuple(each.unread for each in told if each and each.unread)


def _mean_accepted_length(rounds: Sequence[Round]) -> float | None:
    per_step = quotient(total(rounds, "accepted"), total(rounds, "verify_steps"))
    return None if per_step is None else 1 + per_step


def _per_position(rounds: Sequence[Round]) -> tuple[float, ...] | None:
    verify = total(rounds, "verify_steps")
    known = [each for round_ in rounds if (each := round_.accepted_per_pos) is not None]
    if not verify or len(known) < len(rounds):
        return None
    return tuple(sum(column) / verify for column in itertools.zip_longest(*known, fillvalue=0))


def _step_ms(rounds: Iterable[Round]) -> dict[int, float]:
    """The mean time of a step by width, over all steps of the rounds that were timed."""
    found: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for round_ in rounds:
        times = round_.telemetry.step_ms_by_width if round_.telemetry is not None else None
        for width, time in (times or {}).items():
            found[int(width)].append((time.mean_ms * time.n, time.n))
    return {width: sum(ms for ms, _ in own) / sum(n for _, n in own) for width, own in sorted(found.items())}


def _per_second(rounds: Sequence[Round]) -> float | None:
    times = [round_.prompt_ms for round_ in rounds if round_.prompt_ms is not None]
    tokens = total(rounds, "prompt_n")
    if tokens is None or len(times) < len(rounds) or sum(times) <= 0:
        return None
    return tokens / (sum(times) / 1000)


def _rss(records: Iterable[Record]) -> float | None:
    sizes = (record.memory.rss_mb for record in records if record.memory is not None)
    return max((size for size in sizes if size is not None), default=None)
