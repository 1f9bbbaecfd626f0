"""`pytest-ngram curve`: a model's cost curve from saved runs and servers of its own, as text and JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pytest_ngram import record
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import OptionError
from pytest_ngram.files import write_whole
from pytest_ngram.measure import host, sources
from pytest_ngram.measure.curve import MTP, CurveRun, Measured, Wanted
from pytest_ngram.measure.run_file import read_run
from pytest_ngram.options.settings import cache_folder
from pytest_ngram.record import Record
from pytest_ngram.report.curve import curve_lines
from pytest_ngram.verdict.curve import (
    LOOKUP,
    SCHEMA,
    BreakEven,
    Curve,
    Drafted,
    Timed,
    break_evens,
    curve,
)
from pytest_ngram.verdict.curve_cells import is_timed, steps_of
from pytest_ngram.verdict.summary import BASELINE


@dataclass(frozen=True)
class Asked:
    """What the command line said; `runs` are saved JSON files, `measures` whether servers may be started."""

    model: str
    matrix: Path
    llama_server: str | None = None
    runs: tuple[Path, ...] = ()
    measures: bool = True
    blocks: int = 3
    repeats: int = 4
    out: Path | None = None
    cache: Path | None = None


class CurveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `--out` writes. `engine` is null where saved runs alone were read."""

    schema: int = SCHEMA
    model: record.Model | None
    engine: record.Engine | None
    cpu: str | None
    curve: Curve
    break_even: dict[str, tuple[BreakEven, ...]]
    notes: tuple[str, ...] = ()


def curve_lines_of(asked: Asked, tell: Callable[[str], None] = lambda text: None) -> Iterator[str]:
    """Make the curve, yield it as lines, then write it where that was asked: a full disk loses no minutes.

    Raises:
        OptionError: the matrix has no such model, nothing can be compared, or the file cannot be written.
        RecordError: a saved run cannot be read.
        ModelError, EngineError: a server cannot be started.
    """
    steps, drafted, model, notes = _of_runs(asked)
    measured = _measured(asked, steps, tell) if asked.measures else None
    if measured is not None:
        steps, drafted = [*steps, *measured.steps], [*drafted, *measured.drafted]
        model, notes = measured.model, (*notes, *measured.notes)
    found = curve(steps, drafted)
    if found is None or not found.series:
        raise OptionError(
            "there is nothing to make a curve of",
            checked=[
                *map(str, asked.runs),
                f"{len(steps)} kinds of timed steps, {BASELINE} and one drafter are needed in one block",
                *notes,
            ],
            fix="save a run with the baseline and with configs of one drafter, and name it with --from"
            + ("" if asked.measures else "; or leave --only-from out"),
        )
    file = CurveFile(
        model=model,
        engine=measured.engine if measured is not None else None,
        cpu=host.processor()[0],
        curve=found,
        break_even=break_evens(found),
        notes=notes,
    )
    yield from curve_lines(asked.model, found, file.break_even)
    yield from (f"note: {note}" for note in file.notes)
    if asked.out is not None:
        _write(asked.out, msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        raise OptionError(
            f"the curve is above, but {path} cannot be written",
            checked=[str(error)],
            fix="name a file in a folder that can be written to and has room",
        ) from error


def _of_runs(asked: Asked) -> tuple[list[Timed], list[Drafted], record.Model | None, tuple[str, ...]]:
    """What saved runs tell of the model, and notes. Blocks of what is measured now come before theirs."""
    runs = [_saved(path, asked.model) for path in asked.runs]
    kept = [list(filter(is_timed, records)) for records in runs]
    steps, drafted = steps_of(kept, first_block=asked.blocks + 1)
    models = [each.model for records in runs for each in records if each.model is not None]
    left_out = sum(map(len, runs)) - sum(map(len, kept))
    note = f"cells of saved runs that are left out, since contended or throttled: {left_out}"
    return steps, drafted, models[-1] if models else None, (note,) if left_out else ()


def _saved(path: Path, model: str) -> list[Record]:
    records = read_run(path).records
    return [each for each in records if each.cell.model == model and each.outcome.status == "ok"]


def _measured(asked: Asked, seen: list[Timed], tell: Callable[[str], None]) -> Measured | None:
    """Measure the widths that no saved run has; None where they have all of them."""
    matrix, _text = sources.read_matrix(asked.matrix)
    if asked.model not in matrix.models:
        raise OptionError(
            f"the matrix has no model {asked.model!r}",
            checked=[str(asked.matrix), f"it has: {', '.join(matrix.models)}"],
            fix="name one of them",
        )
    wanted = Wanted(asked.model, asked.blocks, asked.repeats)
    wanted = replace(
        wanted,
        lookup=wanted.lookup - {step.tokens for step in seen if step.drafter == LOOKUP},
        mtp=wanted.mtp - {step.tokens for step in seen if step.drafter == MTP},
    )
    if not wanted.lookup and not wanted.mtp:
        return None
    cache = cache_folder(str(asked.cache) if asked.cache is not None else None)
    factory = Factory(choose(asked.llama_server), cache_dir=cache, warn=tell)
    try:
        with tempfile.TemporaryDirectory(prefix="pytest-ngram-curve-") as folder:
            base = asked.matrix.parent
            run = CurveRun(matrix, base, factory, wanted, cache=cache, folder=Path(folder), tell=tell)
            return run.measure()
    except OSError as error:
        raise OptionError(
            "the curve cannot be measured: no place for logs and the table",
            checked=[tempfile.gettempdir(), str(error)],
            fix="make room there, or set TMPDIR to a folder with some",
        ) from error
