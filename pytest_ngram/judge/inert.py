"""Says of a config whether one of its types never did anything in a whole run.

The unit is model × config × temperature, over all cells that ended well: a prompt on which nothing was
drafted is an honest cell; a type that drafted on no prompt in no block did not take part, and its numbers are
those of the baseline, or of the rest of its stack, under another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from pytest_ngram.record import Outcome, Record, Round, TypeDrafts

_NONE: Mapping[str, str] = MappingProxyType({})


class Drafts(msgspec.Struct, frozen=True):
    """What one type did over some cells.

    `calls` (of generate) and `drafted` (tokens) are null where nothing told. A type that is not `is_set_up`
    has no line among the statistics of the others.
    """

    type: str
    calls: int | None
    drafted: int | None
    is_set_up: bool


class Finding(msgspec.Struct, frozen=True):
    """What is to be said of a config at one temperature.

    It `fails` the run unless only a part of the profile's prompts ran.
    `outcome` is that of its cells which ended well, null where they stay as they are; `warning` is told once.
    """

    outcome: Outcome | None = None
    warning: str | None = None
    fails: bool = True


def judge(
    records: Sequence[Record],
    types: Sequence[str],
    abstains: Mapping[str, str] = _NONE,
    of_prompts: int = 0,
) -> Finding:
    """Judge all cells of one model, config and temperature.

    Args:
        records: its cells, failed ones too.
        types: the types of the config, by the names of `--spec-type`; none for the baseline.
        abstains: the types that are expected never to draft on this model, and why; the others have to.
        of_prompts: how many prompts the profile has for the model, of which fewer may have been run.

    Returns:
        `inert` with its reason where a type is known to have drafted nothing; where that was expected of each
        such type, `ok` with a reason that says so. What is not known is not judged. A warning names the types
        that were expected never to draft, and did.
    """
    good = [record for record in records if record.outcome.status == "ok"]
    rounds = [round_ for record in good for round_ in record.rounds]
    if not rounds or not types:
        return Finding()
    counts = _counts(rounds, types)
    busy = [each for each in counts if each.drafted and each.type in abstains]
    warning = _no_longer(good, busy) if busy else None
    idle = [each for each in counts if each.drafted == 0]
    unexpected = [each for each in idle if each.type not in abstains]
    if unexpected:
        outcome = Outcome(status="inert", reason=_reason(records, good, unexpected, counts, of_prompts))
        part = _part(records, of_prompts)
        if part is not None:
            cell = good[0].cell
            seen = f"{cell.model}/{cell.config} at temperature {cell.temperature:g} drafted nothing"
            more = f"{seen}, but only {part}: run more of them first"
            return Finding(outcome, "; ".join([more, warning] if warning else [more]), fails=False)
    elif idle:
        outcome = Outcome(status="ok", reason=f"inert, as expected{_expected(idle, types, abstains)}")
    else:
        return Finding(warning=warning)
    return Finding(outcome=outcome, warning=warning)


def apply(records: Iterable[Record], outcome: Outcome) -> list[Record]:
    """Return the records with this outcome for those that ended well; the others as they are."""
    return [
        msgspec.structs.replace(record, outcome=outcome) if record.outcome.status == "ok" else record
        for record in records
    ]


def _counts(rounds: Sequence[Round], types: Sequence[str]) -> list[Drafts]:
    """Add up what each type did, in llama.cpp's own order where a log tells it."""
    logs = [_log_of(round_, types) for round_ in rounds]
    order = [name for by_type in logs if by_type is not None for name in by_type]
    return [_of_type(name, rounds, types) for name in dict.fromkeys([*order, *types])]


def _of_type(name: str, rounds: Sequence[Round], types: Sequence[str]) -> Drafts:
    logs = [_log_of(round_, types) for round_ in rounds]
    own = [by_type[name] if by_type is not None and name in by_type else None for by_type in logs]
    told = [each.calls for each in own if each is not None]
    drafted = [_drafted(name, round_, types) for round_ in rounds]
    some = sum(each for each in drafted if each is not None)
    return Drafts(
        type=name,
        calls=sum(told) if len(told) == len(rounds) else None,
        drafted=some if some or None not in drafted else None,
        is_set_up=bool(told) or None in logs,
    )


def _log_of(round_: Round, types: Sequence[str]) -> dict[str, TypeDrafts] | None:
    """What the log told of each type; None where it has other names than the config, and so tells nothing."""
    by_type = round_.by_type
    return by_type if by_type is not None and by_type.keys() <= set(types) else None


def _drafted(name: str, round_: Round, types: Sequence[str]) -> int | None:
    """What a type drafted in one request: by the log, else from the request's own total where that can tell.

    The types in a log account for all that was drafted, so a type that is not among them drafted nothing.
    """
    by_type = _log_of(round_, types)
    if by_type is not None:
        return by_type[name].drafted if name in by_type else 0
    return round_.drafted if round_.drafted == 0 or len(types) == 1 else None


def _part(records: Sequence[Record], of_prompts: int) -> str | None:
    """Say how many of the profile's prompts ran; None where all did."""
    prompts = len({record.cell.prompt for record in records})
    return f"{prompts} of {of_prompts} prompts of the profile ran" if prompts < of_prompts else None


def _reason(
    records: Sequence[Record],
    good: Sequence[Record],
    idle: Sequence[Drafts],
    counts: Sequence[Drafts],
    of_prompts: int,
) -> str:
    cell = good[0].cell
    part = _part(records, of_prompts)
    first = "run more prompts of the profile first; then " if part is not None else ""
    names = " and ".join(each.type for each in idle)
    cells = f"{_cells(len(good))} ended well"
    if len(good) < len(records):
        cells += f", {len(records) - len(good)} did not"
    lines = [
        f"{names} never drafted anything{_asked(idle)}",
        f"  checked: {cells}, temperature {cell.temperature:g}; {_generated(good)} tokens generated",
        *(f"  checked: {_told(each)}" for each in counts),
        *([f"  checked: {part}"] if part is not None else []),
        f"  to do: {first}{_to_do(idle, cell.model, cell.config, of_stack=len(counts) > 1)}",
    ]
    return "\n".join(lines)


def _asked(idle: Sequence[Drafts]) -> str:
    if not all(each.is_set_up for each in idle):
        return ": the server never set it up" if len(idle) == 1 else ""
    if any(each.calls is None for each in idle):
        return ""
    if all(each.calls == 0 for each in idle):
        return ": it was never asked" if len(idle) == 1 else ": they were never asked"
    calls = " and ".join(str(each.calls) for each in idle)
    return f", asked {calls} times"


def _told(each: Drafts) -> str:
    if not each.is_set_up:
        return f"{each.type}: the server never set it up, its log has no statistics of it"
    if each.drafted is None or each.calls is None:
        counted = "not known" if each.drafted is None else f"{each.drafted} tokens drafted"
        return f"{each.type}: {counted}"
    if each.calls == 0:
        return f"{each.type}: never got to draft, the types before it always did (0 calls)"
    return f"{each.type}: asked {each.calls} times (calls of generate), {each.drafted} tokens drafted"


def _to_do(idle: Sequence[Drafts], model: str, config: str, *, of_stack: bool) -> str:
    why = f"{{{', '.join(f'{each.type}: why' for each in idle)}}}" if of_stack else "why"
    expect = f"say so in the matrix: models.{model}.abstains: {{{config}: {why}}}"
    if any(each.calls == 0 or not each.is_set_up for each in idle):
        return f"take it out of the stack, or, if no draft is expected, {expect}"
    return (
        "give it flags with which it drafts (shorter matches), or prompts that repeat themselves; "
        f"if no draft is expected, {expect}"
    )


def _expected(idle: Sequence[Drafts], types: Sequence[str], abstains: Mapping[str, str]) -> str:
    """Say why nothing was drafted; of a stack, by which types, those with one reason together."""
    if len(types) == 1:
        return f": {abstains[types[0]]}"
    reasons = dict.fromkeys(abstains[each.type] for each in idle)
    told = []
    for reason in reasons:
        names = " and ".join(each.type for each in idle if abstains[each.type] == reason)
        told.append(f"{names} drafted nothing: {reason}")
    return f" ({'; '.join(told)})"


def _no_longer(good: Sequence[Record], counts: Sequence[Drafts]) -> str:
    cell = good[0].cell
    drafted = ", ".join(f"{each.type} {each.drafted} tokens" for each in counts)
    return (
        f"models.{cell.model}.abstains: {cell.config} is no longer true: at temperature {cell.temperature:g} "
        f"it drafted ({drafted})"
    )


def _generated(records: Sequence[Record]) -> int:
    return sum(round_.predicted_n or 0 for record in records for round_ in record.rounds)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
