"""What `pytest-ngram report` and `--ngram-baseline` do with files: read runs, compare, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.files import same_file, write_whole
from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.measure.run_file import read_run
from pytest_ngram.record import Record, RunData, RunFile
from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.compare import compare_lines, foreseen_lines
from pytest_ngram.report.page import Section, Shown
from pytest_ngram.report.page.compared import compared_sections
from pytest_ngram.report.page.foreseen import foreseen_sections
from pytest_ngram.report.terminal import all_lines, failure_lines
from pytest_ngram.report.verdict import verdict_lines
from pytest_ngram.report.written import check_name, write_report
from pytest_ngram.reports.forecast_files import read_curve, read_replay
from pytest_ngram.verdict.bounds import EXIT_CODES, Bound, Checked, check
from pytest_ngram.verdict.comparison import SCHEMA, Comparison, compare
from pytest_ngram.verdict.forecast import ModelForecast, forecasts
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records
from pytest_ngram.verdict.summary import summarise
from pytest_ngram.verdict.types import Settings as Limits
from pytest_ngram.verdict.types import Verdict

PASSED, NOTHING = 0, EXIT_CODES["cannot tell"]


@dataclass(frozen=True)
class Asked:
    """What the command line said.

    Args:
        run: the run that is told of.
        baseline: the one that it is compared with, if any.
        bounds: that it has to keep to.
        json: where the comparison goes.
        pages: where the report of the run goes, by the kind that the option says.
        curve: a cost curve for the forecast; without, the run's own steps make one.
        replay: settings that were replayed, for the forecast.
        adopt: what a config has to gain, and what it may cost.
    """

    run: Path
    baseline: Path | None = None
    bounds: tuple[Bound, ...] = ()
    json: Path | None = None
    pages: Mapping[str, Path] = field(default_factory=dict)
    curve: Path | None = None
    replay: Path | None = None
    adopt: Limits = field(default_factory=Limits)


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


def run_data(name: str, file: RunFile, records: Sequence[Record]) -> RunData:
    """Return a run that has just ended as one that was read."""
    run = file.run
    return RunData(
        name=name,
        version=run.version,
        profile=run.profile,
        matrix_sha256=run.matrix_sha256,
        seed=run.seed,
        records=tuple(records),
        starts=run.starts,
        prompts=file.prompts,
    )


def compared(old: RunData, new: RunData, config_order: Sequence[str] = ()) -> Comparison:
    """Compare two runs with what is known of the types."""
    return compare(old, new, stateful=STATEFUL_TYPES, config_order=config_order)


def lines_of(asked: Asked) -> Iterator[str | int]:
    """Yield the report line by line, and its exit code at the end.

    Raises:
        RecordError: a run cannot be read.
        OptionError: what was asked for needs a baseline, or cannot be written.
    """
    _check(asked)
    run = cells_of(asked.run)
    if asked.baseline is None:
        foreseen = _forecasts(run, asked)
        yield from run_lines(run, asked.adopt)
        yield from foreseen_lines(foreseen)
        yield from _pages(run, asked, foreseen_sections(foreseen, catalogue()))
        yield PASSED
        return
    found = compared(cells_of(asked.baseline), run, _order(run))
    checked = check(found, asked.bounds) if asked.bounds else None
    if asked.json is not None:
        _write(asked.json, ComparisonFile(comparison=found, checked=checked))
    yield from compare_lines(found, checked)
    yield from _pages(run, asked, compared_sections(found, catalogue(), checked))
    yield EXIT_CODES[checked.outcome] if checked is not None else PASSED if found.any else NOTHING


def _check(asked: Asked) -> None:
    """Find what cannot be followed before anything is read. Raises `OptionError`."""
    for kind, path in asked.pages.items():
        _check_page(kind, path)
    _check_inputs(asked)
    if asked.baseline is None and (asked.json is not None or asked.bounds):
        raise OptionError(
            "--fail-on and --json are of a comparison",
            checked=["--baseline is not given"],
            fix="give --baseline OLD.json",
        )
    if asked.baseline is not None and (asked.curve is not None or asked.replay is not None):
        raise OptionError(
            "--curve and --replay are of the forecast of one run",
            checked=["--baseline is given"],
            fix="leave one of them out",
        )


def _check_inputs(asked: Asked) -> None:
    """A run is hours of measuring, and written over by no report of it. Raises `OptionError`."""
    named: dict[str, Path | None] = {"json": asked.json, **asked.pages}
    read = [path for path in (asked.run, asked.baseline, asked.curve, asked.replay) if path is not None]
    for kind, path in named.items():
        try:
            same = [each for each in read if path is not None and same_file(each, path)]
        except OSError:  # a loop of links: reading or writing it says so
            continue
        if same:
            raise OptionError(
                f"--{kind} would write over a file that is read",
                checked=[str(path), *(str(each) for each in same if each != path)],
                fix="name another file",
            )


def _forecasts(run: RunData, asked: Asked) -> tuple[ModelForecast, ...]:
    curves = read_curve(asked.curve, run) if asked.curve is not None else None
    replayed = read_replay(asked.replay, run) if asked.replay is not None else None
    return forecasts(run.records, curves, replayed)


def _order(run: RunData) -> tuple[str, ...]:
    """The configs by name: the order of a matrix is not in the record, and blocks shuffle them."""
    return tuple(sorted({record.cell.config for record in run.records}))


def run_lines(run: RunData, adopt: Limits) -> list[str]:
    """Return the tables and the verdict of one run, as at its end."""
    failed = failure_lines(each for each in run.records if each.outcome.status != "ok")
    lines = all_lines(summarise(run.records, _order(run)))
    lines += ["", "failed:", *(f"  {line}" for line in failed)] if failed else []
    return [*lines, "", *verdict_lines(_verdict(run, adopt))]


def _verdict(run: RunData, adopt: Limits) -> Verdict:
    return judge(from_records(run.records, run.prompts), adopt, config_order=_order(run))


def _check_page(kind: str, path: Path) -> None:
    option = f"--{kind}"
    check_name(path, option)
    if path.suffix != f".{kind}":
        raise OptionError(
            f"{option} names a file of another kind",
            checked=[str(path)],
            fix=f"let its name end with .{kind}",
        )


def _pages(run: RunData, asked: Asked, sections: Sequence[Section]) -> Iterator[str]:
    """Write the report of a run to each file."""
    for kind, path in asked.pages.items():
        try:
            write_report(
                path, Shown(run.records, _verdict(run, asked.adopt), run, _order(run), sections=sections)
            )
        except OSError as error:
            raise OptionError(
                f"--{kind} cannot be written: {error.strerror}", checked=[str(path)], fix="name another file"
            ) from error
        yield f"report: {path}"


def _write(path: Path, file: ComparisonFile) -> None:
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    except OSError as error:
        raise OptionError(
            f"--json cannot be written: {error.strerror}", checked=[str(path)], fix="name another file"
        ) from error
