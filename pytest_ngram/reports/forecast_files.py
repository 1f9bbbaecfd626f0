"""Files that a forecast is made of: a cost curve, and the rows of a replay."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from pytest_ngram.errors import OptionError
from pytest_ngram.record import Model, RunData
from pytest_ngram.verdict.curve import LOOKUP, Curve
from pytest_ngram.verdict.forecast import Key, Steps, shared_out

T = TypeVar("T")
_STREAM = re.compile(r"(.+)/t([0-9.e+-]+)")


class _CurveFile(msgspec.Struct, frozen=True):
    """What is needed of `pytest-ngram curve --out`."""

    model: Model | None
    cpu: str | None
    curve: Curve


class _Row(msgspec.Struct, frozen=True):
    """A row of `pytest-ngram replay --json`: a policy on a stream, on all prompts where `prompt` is null."""

    stream: str
    policy: str
    table: str | None
    prompt: str | None
    generated: int
    drafted: int
    accepted: int
    verify_steps: int
    plain_steps: int
    replays: int


class _ReplayFile(msgspec.Struct, frozen=True):
    rows: tuple[_Row, ...]


def read_curve(path: Path, run: RunData) -> dict[str, Curve]:
    """Return the curve for the model of a run that it is of.

    Raises:
        OptionError: the file is no cost curve, or it is of another model or processor than the run.
    """
    file = _read(path, _CurveFile, "--curve", "what `pytest-ngram curve --out FILE` wrote")
    cpus = {each.host.cpu for each in run.records if each.host is not None and each.host.cpu}
    if file.cpu is not None and cpus and file.cpu not in cpus:
        raise _other(path, "processor", file.cpu, cpus)
    hashes = {each.cell.model: each.model.sha256 for each in run.records if each.model is not None}
    if file.model is None:
        models = set(hashes)
        if len(models) > 1:
            raise _other(path, "model", "not told (it was made of saved runs alone)", models)
    else:
        models = {name for name, sha256 in hashes.items() if sha256 == file.model.sha256}
        if not models:
            raise _other(path, "model", file.model.name, hashes)
    return dict.fromkeys(models, file.curve)


def read_replay(path: Path, run: RunData) -> dict[Key, list[Steps]]:
    """Return the settings of a replay, by model and temperature.

    Raises:
        OptionError: the file is no replay, or of none of the run's models.
    """
    file = _read(path, _ReplayFile, "--replay", "what `pytest-ngram replay --json FILE` wrote")
    found: dict[Key, list[Steps]] = defaultdict(list)
    for row in file.rows:
        stream = _STREAM.fullmatch(row.stream)
        if row.prompt is None and stream is not None:
            found[stream[1], float(stream[2])].append(_steps(row))
    models = {record.cell.model for record in run.records}
    if not any(model in models for model, _ in found):
        raise _other(path, "model", ", ".join(sorted({model for model, _ in found})) or "none", models)
    return found


def _steps(row: _Row) -> Steps:
    """A row tells how many steps drafted how much in all; they are taken to be as equal as can be."""
    kept = row.accepted // row.verify_steps if row.verify_steps else 0
    return Steps(
        setting=row.policy + (f" -lcs {row.table}" if row.table else ""),
        drafter=LOOKUP,
        source="replay",
        verify=shared_out(row.verify_steps, row.drafted),
        replays={kept + 2: row.replays} if row.replays else {},
        plain=row.plain_steps,
        tokens=row.generated,
        drafted=row.drafted,
        accepted=row.accepted,
    )


def _read(path: Path, kind: type[T], option: str, form: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(
            f"the file of {option} cannot be read: {cause}", checked=[str(path)], fix=f"name {form}"
        ) from error


def _other(path: Path, what: str, own: str, of_run: Iterable[str]) -> OptionError:
    return OptionError(
        f"{path.name} is of another {what} than the run",
        checked=[f"it is of: {own}", f"the run: {', '.join(sorted(of_run))}"],
        fix="make it on the host and with the model of the run",
    )
