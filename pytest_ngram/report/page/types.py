"""What a report shows: everything is said, computed and linked here, so that a template only prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_ngram.record import Record, Run, RunData
from pytest_ngram.verdict.types import Decision, Verdict


@dataclass(frozen=True)
class Td:
    """A cell of a table. `href` leads to the measured cells behind it; `number` is set to the right."""

    text: str
    href: str | None = None
    number: bool = True
    decision: Decision | None = None


@dataclass(frozen=True)
class Head:
    """The head of a column, with its unit; `hint` says what the number is."""

    text: str
    hint: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table. The first of each row is its head."""

    caption: str
    head: tuple[Head, ...]
    rows: tuple[tuple[Td, ...], ...]


@dataclass(frozen=True)
class Mark:
    """A value at a place (a category's index, or x), with its interval or range where it has one."""

    at: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Marks of one kind. `style` tells colour, shape and dash: the same config has the same in all plots."""

    name: str
    style: int
    marks: tuple[Mark, ...]
    joined: bool = False


@dataclass(frozen=True)
class Band:
    """A stretch of the value axis that is shaded."""

    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Rule:
    """A straight line: across the plot at `value`, or from one point to another."""

    label: str
    value: float | None = None
    points: tuple[tuple[float, float], tuple[float, float]] | None = None


@dataclass(frozen=True)
class Plot:
    """A plot of series.

    Args:
        value_label: of the axis of values, with the unit.
        series: what is drawn.
        categories: of the other axis, from the top; without any it is a number, and values go upwards.
        place_label: of the other axis, where it is a number.
        band, rules: beside the series.
        bars: series are parts of a bar from 0, one after the other.
        percent: values are shares, to be shown in percent; `signed` with their sign.
        whole: the other axis has whole numbers only.
    """

    value_label: str
    series: tuple[Series, ...]
    categories: tuple[str, ...] = ()
    place_label: str = ""
    band: Band | None = None
    rules: tuple[Rule, ...] = ()
    bars: bool = False
    percent: bool = False
    signed: bool = False
    whole: bool = True


@dataclass(frozen=True)
class Figure:
    """A plot with its words and its table; without a `plot`, `note` says why there is none.

    `note` is of the numbers, `legend` of what the drawing has beside its marks.
    """

    id: str
    title: str
    alt: str
    note: str
    plot: Plot | None
    table: Table | None
    legend: str = ""


@dataclass(frozen=True)
class Notice:
    """A cell that ended badly, was inert or was disturbed: why, and the last lines of its log.

    `status` is how it ended, or the marks of one that ended well.
    """

    id: str
    name: str
    href: str
    status: str
    reason: str
    log_tail: tuple[str, ...]


@dataclass(frozen=True)
class CellRow:
    """One measured cell, which numbers link to."""

    id: str
    cells: tuple[Td, ...]
    bad: bool


@dataclass(frozen=True)
class CellGroup:
    """The cells of a config and a prompt; `first` where the config's begin, which has an id of its own."""

    id: str
    config_id: str
    config: str
    prompt: str
    first: bool
    rows: tuple[CellRow, ...]


@dataclass(frozen=True)
class CellTable:
    """All cells of a model at a temperature."""

    id: str
    caption: str
    head: tuple[Head, ...]
    groups: tuple[CellGroup, ...]


@dataclass(frozen=True)
class Judged:
    """What is said of a config, and why; `parts` are kinds of prompts on which it is another."""

    config: str
    href: str | None
    decision: Decision
    said: str
    reasons: tuple[str, ...]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelPart:
    """All of a model at one temperature. `notices` are of cells without a result, `disturbed` of others."""

    id: str
    title: str
    answer: str
    floor: str
    table: Table
    judged: tuple[Judged, ...]
    corpus: tuple[str, ...]
    notes: tuple[str, ...]
    strata: Table | None
    figures: tuple[Figure, ...]
    notices: tuple[Notice, ...]
    disturbed: tuple[Notice, ...]
    cells: CellTable


@dataclass(frozen=True)
class Section:
    """A part of a report beside the models, such as a comparison with another run, or a forecast."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Page:
    """A whole report. `overview` has a line for each model where there are several."""

    language: str
    title: str
    lead: str
    overview: Table | None
    models: tuple[ModelPart, ...]
    sections: tuple[Section, ...]
    facts: Table


@dataclass(frozen=True)
class Shown:
    """What a report is of.

    Args:
        records: the cells of one run, those that ended badly too.
        verdict: over them.
        run: what the cells share; None where that is not known.
        config_order: of the rows; the others come after these.
        when: the run was measured, as its JSON says (`datetime`).
        sections: to stand before the models: a comparison, a forecast.
        facts: further ones, by their names.
    """

    records: Sequence[Record]
    verdict: Verdict
    run: Run | RunData | None = None
    config_order: Sequence[str] = ()
    when: str | None = None
    sections: Sequence[Section] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
