"""Plots of what drafting brings and costs: acceptance by position, the cost curve, memory, load time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from pytest_ngram.record import Record, ServerStart
from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import UNKNOWN, between, number
from pytest_ngram.report.page.cells import Cells
from pytest_ngram.report.page.part import Part
from pytest_ngram.report.page.types import Figure, Head, Mark, Plot, Rule, Series, Table, Td
from pytest_ngram.verdict.curve import Curve, break_evens, curve
from pytest_ngram.verdict.curve_cells import is_timed, steps_of
from pytest_ngram.verdict.shares import total
from pytest_ngram.verdict.summary import ModelSummary

_RAYS = (0.25, 0.5, 0.75, 1.0)  # acceptances for which it is shown what a step brings


def acceptance_figure(part: Part, summary: ModelSummary) -> Figure:
    """Return, of all verify steps, the share that accepted the token at each position of the draft."""
    known = [(row, row.acceptance_per_pos) for row in summary.rows if row.acceptance_per_pos]
    series = tuple(
        Series(
            row.config,
            part.styles[row.config],
            tuple(Mark(n, share) for n, share in enumerate(shares, 1)),
            joined=True,
        )
        for row, shares in known
    )
    most = max((len(shares) for _row, shares in known), default=0)
    plot = Plot(
        part.tell("axis-accepted"),
        series,
        place_label=part.tell("axis-draft-position"),
        percent=True,
    )
    head = (
        Head(part.tell("col-config"), number=False),
        *(Head(str(n)) for n in range(1, most + 1)),
        Head(part.tell("col-verify-steps")),
        Head(part.tell("col-coverage")),
    )
    rows = []
    for row, shares in known:
        href = part.cells.href(row.config)
        values = [f"{share:.1%}" for share in shares] + [UNKNOWN] * (most - len(shares))
        steps = total([r for record in part.cells.of(row.config) for r in record.rounds], "verify_steps")
        rows.append(
            (
                Td(row.config, href, number=False),
                *(Td(value, href) for value in values),
                Td(number(steps, "d"), href),
                Td(number(row.coverage, ".0%"), href),
            )
        )
    title = part.tell("acceptance-title")
    said = ", ".join(f"{row.config} {shares[0]:.0%}…{shares[-1]:.0%}" for row, shares in known)
    return Figure(
        id=f"{part.id}-acceptance",
        title=title,
        alt=part.tell("acceptance-alt", said=said),
        note=part.tell("acceptance-note") if known else part.tell("absent-acceptance"),
        plot=plot if known else None,
        table=Table(title, head, tuple(rows)) if known else None,
    )


def curve_figure(part: Part) -> Figure:
    """Return T(w)/T(1) as the cells' own traces tell it, and what a step brings at some acceptances."""
    found = curve(*steps_of([filter(is_timed, part.cells.records)]))
    title = part.tell("curve-title")
    if found is None or not found.series:
        return Figure(
            f"{part.id}-curve",
            title,
            part.tell("curve-alt", said=""),
            part.tell("absent-curve"),
            None,
            None,
        )
    most = max(point.tokens for series in found.series.values() for point in series.points)
    series = tuple(
        Series(
            drafter,
            style,
            (Mark(1, 1.0), *(Mark(p.tokens, p.ratio, p.low, p.high) for p in each.points)),
            joined=True,
        )
        for style, (drafter, each) in enumerate(found.series.items(), 1)
    )
    rays = tuple(
        Rule(part.tell("curve-ray", acceptance=share), points=((1, 1.0), (most, 1 + (most - 1) * share)))
        for share in _RAYS
    )
    plot = Plot(part.tell("axis-cost"), series, place_label=part.tell("axis-width"), rules=rays)
    steps = part.tell("curve-note", ms=found.plain_ms, n=found.plain_n, blocks=found.blocks)
    ends = ", ".join(
        f"{name} {s.points[-1].tokens}: {s.points[-1].ratio:.2f}" for name, s in found.series.items()
    )
    return Figure(
        f"{part.id}-curve",
        title,
        part.tell("curve-alt", said=ends),
        steps,
        plot,
        _curve_table(found, title, f"#{part.cells.id}", part.texts),
        part.tell("curve-legend"),
    )


def memory_figure(part: Part) -> Figure:
    """Return resident memory by config, the most of its cells, split into the engine's own and its files'."""
    worst = {}
    for config in part.cells.configs:
        known = ((r.memory.rss_mb, r) for r in part.cells.of(config) if r.memory is not None)
        sizes = [(size, record) for size, record in known if size is not None]
        if sizes:
            worst[config] = max(sizes, key=lambda pair: pair[0])
    split = [(m.rss_anon_mb, m.rss_file_mb) for _size, r in worst.values() if (m := r.memory) is not None]
    parts = tuple(
        Series(
            part.tell(f"memory-{name}"),
            style,
            tuple(Mark(i, size) for i, both in enumerate(split) if (size := both[style]) is not None),
        )
        for style, name in enumerate(("anon", "file"))
    )
    plot = Plot(part.tell("axis-rss"), parts, categories=tuple(worst), bars=True)
    head = (
        Head(part.tell("col-config"), number=False),
        *(Head(part.tell(f"col-{name}")) for name in ("rss", "rss-anon", "rss-file", "rss-peak", "cells")),
    )
    title = part.tell("memory-title")
    rows = tuple(_memory_row(config, size, record, part.cells) for config, (size, record) in worst.items())
    said = ", ".join(f"{config} {size:.0f} MiB" for config, (size, _record) in worst.items())
    return Figure(
        id=f"{part.id}-memory",
        title=title,
        alt=part.tell("memory-alt", said=said),
        note=part.tell("memory-note") if worst else part.tell("absent-memory"),
        plot=plot if worst else None,
        table=Table(title, head, rows) if worst else None,
    )


def load_figure(part: Part, starts: Sequence[ServerStart]) -> Figure:
    """Return how long a server took until it was ready, by config."""
    found: dict[str, list[ServerStart]] = defaultdict(list)
    for start in starts:
        found[start.config].append(start)
    configs = [config for config in part.cells.configs if config in found]
    series = tuple(
        Series(
            config,
            part.styles[config],
            (
                Mark(
                    i,
                    fmean(start.load_s for start in found[config]),
                    min(start.load_s for start in found[config]),
                    max(start.load_s for start in found[config]),
                ),
            ),
        )
        for i, config in enumerate(configs)
    )
    plot = Plot(part.tell("axis-load"), series, categories=tuple(configs))
    head = (
        Head(part.tell("col-config"), number=False),
        *(Head(part.tell(key)) for key in ("col-load", "col-load-range", "col-warmup", "col-starts")),
    )
    rows = tuple(
        (
            Td(config, part.cells.href(config), number=False),
            *(
                Td(value, part.cells.href(config))
                for value in (
                    f"{each.marks[0].value:.3f}",
                    between(each.marks[0].low, each.marks[0].high, ".3f"),
                    f"{fmean(start.warmup_s for start in found[config]):.3f}",
                    str(len(found[config])),
                )
            ),
        )
        for config, each in zip(configs, series, strict=True)
    )
    title = part.tell("load-title")
    said = ", ".join(f"{each.name} {each.marks[0].value:.3f} s" for each in series)
    return Figure(
        id=f"{part.id}-load",
        title=title,
        alt=part.tell("load-alt", said=said),
        note=part.tell("load-note") if series else part.tell("absent-load"),
        plot=plot if series else None,
        table=Table(title, head, rows) if series else None,
        legend=part.tell("load-legend") if series else "",
    )


def _memory_row(config: str, size: float, record: Record, cells: Cells) -> tuple[Td, ...]:
    memory, href = record.memory, cells.href_of(record)
    values = (memory.rss_anon_mb, memory.rss_file_mb, memory.rss_peak_mb) if memory is not None else ()
    return (
        Td(config, cells.href(config), number=False),
        Td(f"{size:.0f}", href),
        *(Td(number(value, ".0f"), href) for value in values),
        Td(str(len(cells.of(config))), cells.href(config)),
    )


def _curve_table(found: Curve, caption: str, href: str, texts: Catalogue) -> Table:
    """One row a drafter and width: what was measured, and what a draft of that length has to bring."""
    needed = {(name, row.n_max + 1): row for name, rows in break_evens(found).items() for row in rows}
    rows = []
    for name, series in found.series.items():
        for point in series.points:
            even = needed.get((name, point.tokens))
            values = (
                str(point.tokens),
                f"{point.ratio:.2f}",
                between(point.low, point.high, ".2f"),
                f"{point.ms:.2f}",
                str(point.n),
                number(series.step_ratio(point.tokens), ".2f"),
                number(even.acceptance if even else None, ".2f"),
            )
            rows.append((Td(name, number=False), *(Td(value, href) for value in values)))
    keys = ("width", "cost", "cost-range", "step-ms", "steps", "step-cost", "break-even")
    head = (Head(texts.tell("col-drafter"), number=False), *(Head(texts.tell(f"col-{key}")) for key in keys))
    return Table(caption, head, tuple(rows))
