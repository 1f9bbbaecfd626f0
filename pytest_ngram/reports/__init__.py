"""What `pytest-ngram report` and `--ngram-baseline` do with files: read runs, compare, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.evidence.for_verdict import take
from pytest_ngram.files import same_file, write_whole
from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.measure.run_file import read_run
from pytest_ngram.record import RunData
from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.compare import compare_lines, foreseen_lines
from pytest_ngram.report.page import Section, Shown
from pytest_ngram.report.page.compared import compared_sections
from pytest_ngram.report.page.foreseen import foreseen_sections
from pytest_ngram.report.terminal import all_lines, failure_lines
from pytest_ngram.report.verdict import verdict_lines
from pytest_ngram.report.written import check_name, write_report
from pytest_ngram.reports.forecast_files import read_curve, read_replay
from pytest_ngram.reports.points_file import SUFFIXES, points_lines
from pytest_ngram.verdict.bounds import EXIT_CODES, Bound, Checked, check
from pytest_ngram.verdict.comparison import SCHEMA, Comparison, compare
from pytest_ngram.verdict.forecast import ModelForecast, forecasts
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records
from pytest_ngram.verdict.summary import summarise
from pytest_ngram.verdict.types import GateResults, Verdict
from pytest_ngram.verdict.types import Settings as Limits

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
        gates: a report of the gates on the same build, for the verdict.
    """

    run: Path
    baseline: Path | None = None
    bounds: tuple[Bound, ...] = ()
    json: Path | None = None
    pages: Mapping[str, Path] = field(default_factory=dict)
    curve: Path | None = None
    replay: Path | None = None
    adopt: Limits = field(default_factory=Limits)
    gates: Path | None = None


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
    if asked.run.suffix in SUFFIXES:
        _check_points(asked)
        yield from points_lines(asked.run, asked.adopt)
        yield PASSED
        return
    _check(asked)
    run = cells_of(asked.run)
    _gates(run, asked)  # those of another build are refused before a line is printed
    if asked.baseline is None:
        foreseen = _forecasts(run, asked)
        yield from run_lines(run, asked)
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


def _check_points(asked: Asked) -> None:
    """Find what single numbers cannot be asked for. Raises `OptionError`."""
    named = ("baseline", "json", "curve", "replay", "gates")
    options = [name for name in named if getattr(asked, name) is not None]
    options += [*(["fail-on"] if asked.bounds else []), *asked.pages]
    if options:
        raise OptionError(
            "a run of single numbers has its lines, and no more",
            checked=[f"{asked.run.name}, and --{', --'.join(options)}"],
            fix="leave these options out, or name a JSON that pytest bench saved, or a journal",
        )


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
    if asked.baseline is not None and asked.gates is not None and not asked.pages:
        raise OptionError(
            "--gates is of the verdict, and a comparison prints none",
            checked=["--baseline is given, and neither --html nor --md"],
            fix="leave one of them out, or write a page, which has both",
        )


def _check_inputs(asked: Asked) -> None:
    """A run is hours of measuring, and written over by no report of it. Raises `OptionError`."""
    named: dict[str, Path | None] = {"json": asked.json, **asked.pages}
    read = [
        path
        for path in (asked.run, asked.baseline, asked.curve, asked.replay, asked.gates)
        if path is not None
    ]
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


def run_lines(run: RunData, asked: Asked) -> list[str]:
    """Return the tables and the verdict of one run, as at its end."""
    failed = failure_lines(each for each in run.records if each.outcome.status != "ok")
    lines = all_lines(summarise(run.records, _order(run)))
    lines += ["", "failed:", *(f"  {line}" for line in failed)] if failed else []
    return [*lines, "", *verdict_lines(_verdict(run, asked))]


def _verdict(run: RunData, asked: Asked) -> Verdict:
    samples = from_records(run.records, run.prompts)
    return judge(samples, asked.adopt, _gates(run, asked), config_order=_order(run))


def _gates(run: RunData, asked: Asked) -> GateResults | None:
    return take(asked.gates).results(run.records) if asked.gates is not None else None


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
    when = f"{datetime.fromisoformat(run.when):%Y-%m-%d %H:%M %Z}".strip() if run.when is not None else None
    verdict, order = _verdict(run, asked), _order(run)
    for kind, path in asked.pages.items():
        try:
            write_report(path, Shown(run.records, verdict, run, order, when=when, sections=sections))
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
