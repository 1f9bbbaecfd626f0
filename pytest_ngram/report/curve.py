"""A cost curve and its break-even, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_ngram.report.numbers import UNKNOWN
from pytest_ngram.verdict.curve import BreakEven, Curve, Series


def curve_lines(model: str, found: Curve, break_even: Mapping[str, Sequence[BreakEven]]) -> list[str]:
    """Return the curve of a model: one row a width, then what a draft has to bring."""
    steps = f"{found.plain_n} plain steps of {found.plain_ms:.3f} ms, {found.blocks} blocks"
    lines = [f"{model}: T(w)/T(1), what a decode of w tokens costs; {steps}"]
    drafters = list(found.series)
    lines.append("  " + "  ".join(["tokens", *(f"{_label(drafter):>24}" for drafter in drafters)]))
    widths = sorted({point.tokens for series in found.series.values() for point in series.points})
    for width in widths:
        cells = [_cell(found.series[drafter], width) for drafter in drafters]
        lines.append("  " + "  ".join([f"{width:>6}", *(f"{cell:>24}" for cell in cells)]))
    lines += ["", "break-even: the acceptance (accepted ÷ drafted) from which a draft of n_max pays"]
    for drafter, rows in break_even.items():
        price = found.series[drafter].draft_ratio
        told = UNKNOWN if price is None else f"{price:.3f}"
        lines.append(f"  {_label(drafter)}; drafting a token costs {told} plain steps")
        lines += [
            f"    n_max {row.n_max:>2}: a step costs {row.step_ratio:.2f}, {_needed(row)}" for row in rows
        ]
    return lines


def _label(drafter: str) -> str:
    return f"{drafter} (catch-up in it)" if drafter == "draft-mtp" else drafter


def _cell(series: Series, width: int) -> str:
    for point in series.points:
        if point.tokens == width:
            return f"{point.ratio:.2f} ({point.low:.2f}…{point.high:.2f})"
    return UNKNOWN


def _needed(row: BreakEven) -> str:
    if row.acceptance > 1:
        return f"needs {row.acceptance:.2f}: never pays"
    return f"needs {max(0.0, row.acceptance):.2f}"
