"""Lines that set prompts out of a table's corpus beside the real ones: what leakage would have bought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ngram.record import Record
from pytest_ngram.report.numbers import UNKNOWN, counted
from pytest_ngram.report.terminal import acceptance
from pytest_ngram.verdict.summary import BASELINE, Row, summarise


def echo_lines(records: Iterable[Record], config_order: Sequence[str] = ()) -> list[str]:
    """Return a title for each model and temperature that ran echo prompts, and a line for each config."""
    records = list(records)
    real = {
        (each.model, each.temperature, row.config): row
        for each in summarise(records, config_order)
        for row in each.rows
    }
    lines = []
    for summary in summarise(records, config_order, echo=True):
        prompts = counted(summary.prompts, "echo prompt")
        lines.append(
            f"{summary.model}: {prompts} out of the table's corpus, temperature {summary.temperature:g}; "
            "in no figure above"
        )
        for row in summary.rows:
            if row.config != BASELINE:
                other = real.get((summary.model, summary.temperature, row.config))
                lines.append(f"  {row.config}: echo {_said(row)}; real {_said(other)}")
    return lines


def _said(row: Row | None) -> str:
    """Speed, change and acceptance, which never stands without its coverage."""
    if row is None or row.tg is None:
        return UNKNOWN
    change = "" if row.change is None else f" ({row.change.value:+.1%} vs {BASELINE})"
    return f"{row.tg.value:.1f} t/s{change}, accept @ coverage {acceptance(row)}"
