"""The streams of a run that policies are replayed over, and what its requests tell of the host's cost."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.drafting.cost import Timed
from pytest_ngram.drafting.policy import Policy
from pytest_ngram.drafting.streams import Asked, Served, verify_steps
from pytest_ngram.matrix.spec import BASELINE
from pytest_ngram.replay.recorded import policy_of
from pytest_ngram.replay.sweep import Stream


def streams(servers: Iterable[Served]) -> list[Stream]:
    """Return one stream for each model and temperature.

    It is what one server answered: of the baseline in the first block, else of whichever config came first.
    At temperature 0 the others said the same, and at another one theirs are other samples of the same model.
    """
    chosen: dict[tuple[str, float], Served] = {}
    for served in servers:
        cell = served.record.cell
        key = (cell.model, cell.temperature)
        is_better = key not in chosen or (
            cell.config == BASELINE and chosen[key].record.cell.config != BASELINE
        )
        if is_better and any(each.request is not None for each in served.asked):
            chosen[key] = served
    return [_stream(served) for served in chosen.values()]


def _stream(served: Served) -> Stream:
    cell = served.record.cell
    return Stream(
        name=f"{cell.model}/t{cell.temperature:g}",
        warmup=served.warmup,
        requests=tuple((each.prompt, each.request) for each in served.asked if each.request is not None),
        restores=bool(served.restores),
        left_out=sum(each.request is None for each in served.asked),
    )


def own_policies(servers: Iterable[Served]) -> list[tuple[Policy, Served]]:
    """Return the policies that a run's servers had, each with each table once, and the first such server.

    Those with a drafting model are left out.
    """
    found: dict[tuple[Policy, str | None], Served] = {}
    for served in servers:
        record = served.record
        policy = policy_of(record.engine) if record.engine is not None else None
        if policy is not None and policy.drafters:
            found.setdefault((policy, record.table.sha256 if record.table is not None else None), served)
    return [(policy, served) for (policy, _table), served in found.items()]


def timed(servers: Iterable[Served], model: str) -> list[Timed]:
    """Return the decodes and seconds of a model's requests, where it is known how wide each decode was."""
    found = []
    for served in servers:
        engine = served.record.engine
        if served.record.cell.model != model or engine is None or policy_of(engine) is None:
            continue
        found += [each for each in (_timed(asked, bool(served.restores)) for asked in served.asked) if each]
    return found


def _timed(asked: Asked, restores: bool) -> Timed | None:
    round_ = asked.recorded
    if round_.predicted_n is None or round_.predicted_ms is None or round_.status != "ok":
        return None
    steps = verify_steps(round_)
    if steps is None:
        if round_.drafted != 0:
            return None
        steps = []
    widths: list[tuple[int, int]] = []
    brought = 0
    for drafted, accepted in steps:
        widths.append((drafted + 1, 1))
        brought += accepted + 1
        if restores and accepted < drafted:
            widths.append((accepted + 2, 1))
            brought += 1
    plain = max(round_.predicted_n - 1 - brought, 0)
    return Timed([*widths, (1, plain)], round_.predicted_ms / 1000)
