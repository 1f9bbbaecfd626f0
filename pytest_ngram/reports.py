"""What `pytest-ngram report` and `--ngram-baseline` do with files: read runs, compare, write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.files import write_whole
from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.measure.run_file import read_run
from pytest_ngram.record import RunData
from pytest_ngram.report.compare import compare_lines
from pytest_ngram.report.terminal import all_lines
from pytest_ngram.report.verdict import verdict_lines
from pytest_ngram.verdict.bounds import EXIT_CODES, Bound, Checked, check
from pytest_ngram.verdict.comparison import SCHEMA, Comparison, compare
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records
from pytest_ngram.verdict.summary import summarise

PASSED, NOTHING = 0, EXIT_CODES["cannot tell"]


@dataclass(frozen=True)
class Asked:
    """What the command line said; `json` is where the comparison goes."""

    run: Path
    baseline: Path | None = None
    bounds: tuple[Bound, ...] = ()
    json: Path | None = None


class ComparisonFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes. `checked` is null without bounds."""

    schema: int = SCHEMA
    comparison: Comparison
    checked: Checked | None


def cells_of(path: Path) -> RunData:
    """Return a saved run that has cells. Raises `RecordError`."""
    run = read_run(path)
    if not run.records:
        raise RecordError(
            f"{path.name} holds no cell",
            checked=[str(path)],
            fix="name a run in which cells were measured",
        )
    return run


def compared(old: RunData, new: RunData, config_order: Sequence[str] = ()) -> Comparison:
    """Compare two runs with what is known of the types."""
    return compare(old, new, stateful=STATEFUL_TYPES, config_order=config_order)


def lines_of(asked: Asked) -> Iterator[str | int]:
    """Yield the report line by line, and its exit code at the end.

    Raises:
        RecordError: a run cannot be read.
        OptionError: what was asked for needs a baseline, or cannot be written.
    """
    run = cells_of(asked.run)
    if asked.baseline is None:
        if asked.json is not None or asked.bounds:
            raise OptionError(
                "--fail-on and --json are of a comparison",
                checked=["--baseline is not given"],
                fix="give --baseline OLD.json",
            )
        yield from run_lines(run)
        yield PASSED
        return
    found = compared(cells_of(asked.baseline), run, _order(run))
    checked = check(found, asked.bounds) if asked.bounds else None
    if asked.json is not None:
        _write(asked.json, ComparisonFile(comparison=found, checked=checked))
    yield from compare_lines(found, checked)
    yield EXIT_CODES[checked.outcome] if checked is not None else PASSED if found.any else NOTHING


def _order(run: RunData) -> tuple[str, ...]:
    """The configs by name: the order of a matrix is not in the record, and blocks shuffle them."""
    return tuple(sorted({record.cell.config for record in run.records}))


def run_lines(run: RunData) -> list[str]:
    """Return the tables and the verdict of one run, as at its end."""
    order = _order(run)
    lines = all_lines(summarise(run.records, order))
    verdict = judge(from_records(run.records), config_order=order)
    return [*lines, "", *verdict_lines(verdict)]


def _write(path: Path, file: ComparisonFile) -> None:
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    except OSError as error:
        raise OptionError(
            f"--json cannot be written: {error.strerror}", checked=[str(path)], fix="name another file"
        ) from error
