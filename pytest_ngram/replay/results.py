"""Results as rows: for the terminal, for CSV and for JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pytest_ngram.drafting.cost import Predicted
from pytest_ngram.drafting.tally import Tally, pooled
from pytest_ngram.replay.sweep import Result

SCHEMA = 1
POSITIONS = 6


@dataclass(frozen=True)
class Row:
    """One policy on one stream: all prompts together, or one of them where `prompt` is told."""

    stream: str
    policy: str
    table: str | None
    prompt: str | None
    tally: Tally
    predicted: Predicted | None = None
    accepted_by_luck: tuple[int, int] | None = None


Predict = Callable[[Result], Predicted | None]


def rows(results: Iterable[Result], predict: Predict) -> list[Row]:
    """Return a row for all prompts of each result, and one for each prompt."""
    found = []
    for result in results:
        policy = str(result.policy)
        found.append(
            Row(
                result.stream,
                policy,
                result.table,
                None,
                pooled(result.of()),
                predict(result),
                result.accepted_by_luck,
            )
        )
        found += [Row(result.stream, policy, result.table, prompt, each) for prompt, each in result.by_prompt]
    return found


def as_dict(row: Row) -> dict[str, Any]:
    """Return the row as it stands in JSON; what is unknown is null."""
    tally, predicted = row.tally, row.predicted
    return {
        "stream": row.stream,
        "policy": row.policy,
        "table": row.table,
        "prompt": row.prompt,
        "requests": tally.requests,
        "generated": tally.generated,
        "drafted": tally.drafted,
        "accepted": tally.accepted,
        "acceptance": tally.acceptance,
        "coverage": tally.coverage,
        "tokens_per_step": tally.tokens_per_step,
        "verify_steps": tally.verify,
        "plain_steps": tally.plain,
        "replays": tally.replays,
        "accepted_per_position": list(tally.accepted_per_position),
        "ties": tally.ties,
        "accepted_by_luck": list(row.accepted_by_luck) if row.accepted_by_luck else None,
        "undefined": tally.undefined,
        "tg": predicted.tg if predicted else None,
        "tg_low": predicted.low if predicted else None,
        "tg_high": predicted.high if predicted else None,
    }


def to_json(found: Sequence[Row], more: dict[str, Any] | None = None) -> bytes:
    """Return all rows, with what else there is to say, as UTF-8 JSON."""
    data = {"schema": SCHEMA, **(more or {}), "rows": [as_dict(row) for row in found]}
    return msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"


def to_csv(found: Sequence[Row]) -> bytes:
    """Return all rows as CSV; the numbers of a list are separated by spaces."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(as_dict(found[0])) if found else [])
    for row in found:
        values = as_dict(row)
        values["accepted_per_position"] = " ".join(f"{each:.4f}" for each in values["accepted_per_position"])
        values["accepted_by_luck"] = " ".join(map(str, values["accepted_by_luck"] or ()))
        writer.writerow(["" if value is None else value for value in values.values()])
    return out.getvalue().encode()


HEAD = f"drafted accepted  rate cover tok/step {'tg (95 %)':>20}  accepted per position"


def lines(found: Sequence[Row], *, per_prompt: bool) -> list[str]:
    """Return a table: each policy on a line of its own, its figures below it, those of prompts by name.

    Below a documented policy whose built one is in the table too stands what the faults cost.
    """
    shown = [row for row in found if row.prompt is None or per_prompt]
    built = {(row.stream, row.policy, row.table): row.tally for row in found if row.prompt is None}
    told: list[str] = []
    stream = None
    for row in shown:
        if row.stream != stream:
            stream = row.stream
            told += ["", stream, f"{'':24}{HEAD}"]
        if row.prompt is None:
            told.append(row.policy + (f" -lcs {row.table}" if row.table else ""))
        told.append(f"  {row.prompt or 'all':<21.21} {_figures(row)}")
        faulty = built.get((row.stream, row.policy.replace("@documented", ""), row.table))
        if row.prompt is None and faulty is not None and "@documented" in row.policy:
            told.append(f"  {'the faults cost':<21} {_cost(faulty, row.tally)}")
    return told[1:]


def _cost(built: Tally, mended: Tally) -> str:
    """What the faults of a type take away; below 0 they bring something."""
    steps = f"{_number(built.tokens_per_step)} tokens per step, not {_number(mended.tokens_per_step)}"
    return f"{mended.accepted - built.accepted} accepted tokens: {steps}"


def _figures(row: Row) -> str:
    tally = row.tally
    per_position = " ".join(f"{each:.2f}" for each in tally.accepted_per_position[:POSITIONS])
    more = " …" if len(tally.per_position) > POSITIONS else ""
    ties = f"  ties: {tally.ties}" if tally.ties else ""
    if row.accepted_by_luck:
        ties += " (accepted {}–{})".format(*row.accepted_by_luck)
    undefined = f"  reads past the text: {tally.undefined}" if tally.undefined else ""
    shares = f"{_share(tally.acceptance)} {_share(tally.coverage)} {_number(tally.tokens_per_step):>8}"
    told = f"{_speed(row.predicted):>20}  {per_position}{more}{ties}{undefined}"
    return f"{tally.drafted:7d} {tally.accepted:8d} {shares} {told}".rstrip()


def _speed(predicted: Predicted | None) -> str:
    return "—" if predicted is None else interval(predicted)


def interval(predicted: Predicted) -> str:
    """Return the speed with its interval, if that is known."""
    if predicted.low is None or predicted.high is None:
        return f"{predicted.tg:.1f}"
    return f"{predicted.tg:.1f} ({predicted.low:.1f}–{predicted.high:.1f})"


def _share(value: float | None) -> str:
    return f"{'—':>5}" if value is None else f"{value:5.2f}"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"
