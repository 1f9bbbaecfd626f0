"""Plots of a report to SVG that a page takes in: its colours are the page's variables, its text is text.

The same plot makes the same bytes: ids are salted with a constant, and no date is written.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from pytest_ngram.report.numbers import UNKNOWN
from pytest_ngram.report.page.types import Mark, Plot, Series
from pytest_ngram.report.svg import BAND, INK, RULE, colour, inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_WIDTH = 400.0  # of a plot in its own units, which are points; the page scales it
_ROW, _AXIS, _LEGEND_ROW = 24.0, 46.0, 19.0
_CURVE_HEIGHT = 230.0
_PLACE = 8.0  # of a series beside others in a row
_TALL = 1200.0  # of all rows together, where they need not be higher
_LETTER = 7.0  # width of a letter of a label, and the most of them that are shown
_MOST_LETTERS = 24
_MOST_SHAPES = 12  # on a line
_SHAPES = "osD^vPX<>ph"
_DASHES = ("-", "--", "-.", ":")
_HATCHES = ("", "///", "...", "xxx")
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # letters, not their outlines: smaller, and they can be read out and searched for
    "svg.hashsalt": "pytest-ngram",
    "text.parse_math": False,  # a name with $ is a name
    "font.size": 12,
    "axes.linewidth": 0.8,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "hatch.color": INK,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 11,
    "legend.frameon": False,
}


def draw(plot: Plot, of: str) -> str:
    """Return a plot as an `<svg>` element whose ids begin with `of`."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a font here that lacks a letter; the reader's has it
        figure = Canvas()
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        _Drawing(plot, figure, axes).draw()
        out = io.StringIO()
        figure.savefig(
            out,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return inline(out.getvalue(), of)


def look(style: int) -> tuple[str, str]:
    """Return the colour and the shape of a style: of the first 77 no two have both, neighbours neither."""
    return colour(style), _SHAPES[style % len(_SHAPES)]


class _Drawing:
    """One plot on its axes. Rows of categories lie below each other, so that their names can be read."""

    def __init__(self, plot: Plot, figure: Canvas, axes: Axes) -> None:
        self.plot = plot
        self.figure = figure
        self.axes = axes
        self.rows = bool(plot.categories)

    def draw(self) -> None:
        """Draw all."""
        self._backdrop()
        if self.plot.bars:
            self._bars()
        else:
            for n, series in enumerate(self.plot.series):
                self._series(series, self._offset(n))
        self._axes()
        self._lay_out()

    def _backdrop(self) -> None:
        plot, axes = self.plot, self.axes
        axes.set_axisbelow(True)
        axes.grid(visible=True, axis="x" if self.rows else "both")
        span, line = (axes.axvspan, axes.axvline) if self.rows else (axes.axhspan, axes.axhline)
        if plot.band is not None:
            span(plot.band.low, plot.band.high, color=BAND, linewidth=0, zorder=0.6, label=plot.band.label)
        if plot.signed:
            line(0.0, color=INK, linewidth=0.8, zorder=0.9)
        for n, rule in enumerate(plot.rules):
            style: dict[str, Any] = {
                "color": INK,
                "linewidth": 1.0,
                "zorder": 0.9,
                "label": rule.label or None,
            }
            if rule.value is not None:
                line(rule.value, linestyle="--", **style)
            elif rule.points is not None:
                (x0, y0), (x1, y1) = rule.points
                axes.plot((x0, x1), (y0, y1), linestyle=(0, (1 + 2 * n, 2)), **style)

    def _series(self, series: Series, offset: float) -> None:
        at = [mark.at + offset for mark in series.marks]
        values = [mark.value for mark in series.marks]
        place, value = (values, at) if self.rows else (at, values)
        own_colour, shape = look(series.style)
        ranged = [mark for mark in series.marks if mark.low is not None and mark.high is not None]
        if ranged:
            self._whiskers(ranged, series.style, offset)
        self.axes.plot(
            place,
            value,
            linestyle=_DASHES[series.style % len(_DASHES)] if series.joined else "none",
            color=own_colour,
            marker=shape,
            markersize=6.5,
            markevery=max(1, len(at) // _MOST_SHAPES) if series.joined else None,
            markeredgecolor=INK,
            markeredgewidth=0.7,
            linewidth=1.4,
            label=series.name,
            zorder=3,
        )

    def _whiskers(self, marks: list[Mark], style: int, offset: float) -> None:
        at = [mark.at + offset for mark in marks]
        low, high = [mark.low for mark in marks], [mark.high for mark in marks]
        lines, left, right = (self.axes.hlines, low, high) if self.rows else (self.axes.vlines, low, high)
        lines(at, left, right, color=INK, linewidth=1.6, zorder=2)  # type: ignore[arg-type]
        ends = [*zip(low, at, strict=True), *zip(high, at, strict=True)]
        xs, ys = zip(*(end if self.rows else end[::-1] for end in ends), strict=True)
        self.axes.plot(
            xs, ys, linestyle="none", marker="|" if self.rows else "_", color=INK, markersize=6, zorder=2
        )

    def _bars(self) -> None:
        left = [0.0] * len(self.plot.categories)
        for n, series in enumerate(self.plot.series):
            at = [round(mark.at) for mark in series.marks]
            values = [mark.value for mark in series.marks]
            self.axes.barh(
                at,
                values,
                left=[left[i] for i in at],
                height=0.6,
                color=colour(series.style + 1),
                edgecolor=INK,
                linewidth=0.7,
                hatch=_HATCHES[n % len(_HATCHES)],
                label=series.name,
                zorder=2,
            )
            for i, value in zip(at, values, strict=True):
                left[i] += value

    def _offset(self, n: int) -> float:
        """Series that share their categories lie beside each other."""
        many = len(self.plot.series)
        alone = all(len(series.marks) <= 1 for series in self.plot.series)
        return 0.0 if not self.rows or alone or many < 2 else 0.6 * (n / (many - 1) - 0.5)

    def _axes(self) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

        plot, axes = self.plot, self.axes
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=3, width=0.8)
        values = axes.xaxis if self.rows else axes.yaxis
        values.set_major_locator(MaxNLocator(4 if self._left() > _WIDTH / 3 else 6))
        if plot.percent:
            values.set_major_formatter(
                FuncFormatter(_signed) if plot.signed else PercentFormatter(1.0, decimals=0)
            )
        values.set_label_text(plot.value_label)
        if self.rows:
            axes.set_yticks(range(len(plot.categories)), [_short(name) for name in plot.categories])
            axes.set_ylim(len(plot.categories) - 0.5, -0.5)
            for edge in range(1, len(plot.categories)):
                axes.axhline(edge - 0.5, color=RULE, linewidth=0.6, zorder=0.5)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=plot.whole, min_n_ticks=1))
            axes.set_xlabel(plot.place_label)
            if plot.percent and not plot.signed:
                axes.set_ylim(-0.03, 1.03)

    def _left(self) -> float:
        """The margin that names, or numbers and what they are, stand in."""
        letters = max((len(_short(name)) for name in self.plot.categories), default=0)
        return _LETTER * letters + 14 if self.rows else 68.0

    def _lay_out(self) -> None:
        """Margins from what stands in them: measuring the text would take longer than drawing it."""
        names = {series.name for series in self.plot.series}
        handles, labels = self.axes.get_legend_handles_labels()
        kept = [
            (handle, label)
            for handle, label in zip(handles, labels, strict=True)
            if not (self.rows and label in names and label in self.plot.categories)
        ]
        columns = 2 if max((len(label) for _handle, label in kept), default=0) > 16 else 3
        legend = _LEGEND_ROW * -(-len(kept) // columns)
        rows = len(self.plot.categories)
        shared = any(len(series.marks) > 1 for series in self.plot.series) and not self.plot.bars
        row = max(_ROW, min(_PLACE * (1 + len(self.plot.series)), _TALL / max(rows, 1))) if shared else _ROW
        height = (row * max(rows, 2) if self.rows else _CURVE_HEIGHT) + _AXIS + legend + 8
        self.figure.set_size_inches(_WIDTH / 72, height / 72)
        self.figure.subplots_adjust(
            left=self._left() / _WIDTH,
            right=1 - 22 / _WIDTH,
            top=1 - 8 / height,
            bottom=(_AXIS + legend) / height,
        )
        if kept:
            self.figure.legend(
                [handle for handle, _label in kept],
                [label for _handle, label in kept],
                loc="lower left",
                bbox_to_anchor=(0, 0, 1, 1),
                ncols=columns,
                borderpad=0.2,
                borderaxespad=0.1,
                columnspacing=1.0,
                handlelength=2.2,
                handletextpad=0.5,
                labelspacing=0.35,
            )


def _signed(value: float, _place: float) -> str:
    return f"{value:+.0%}" if abs(value) >= 0.005 else "0%"


def _short(name: str) -> str:
    """A name that fits beside its row; the table has the whole one."""
    shown = name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
    return shown or UNKNOWN
