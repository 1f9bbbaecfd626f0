"""Two runs, or a forecast, as lines for a terminal: the same sections as on a page."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.columns import columns
from pytest_ngram.report.page.compared import compared_sections
from pytest_ngram.report.page.foreseen import foreseen_sections
from pytest_ngram.report.page.types import Section, Table
from pytest_ngram.verdict.bounds import Checked
from pytest_ngram.verdict.comparison import Comparison
from pytest_ngram.verdict.forecast import ModelForecast


def compare_lines(compared: Comparison, checked: Checked | None = None, language: str = "en") -> list[str]:
    """Return the lines of two runs: differences first, then each model, then what bounds say.

    Args:
        compared: two runs.
        checked: by the bounds of `--fail-on`; None where there are none.
        language: of the catalogue.
    """
    return _lines(compared_sections(compared, catalogue(language), checked))[1:]


def foreseen_lines(found: Iterable[ModelForecast], language: str = "en") -> list[str]:
    """Return the lines of a forecast, an empty one first; nothing where no config drafted."""
    return _lines(foreseen_sections(found, catalogue(language)))


def _lines(sections: Iterable[Section]) -> list[str]:
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title]
        for n, table in enumerate(section.tables):
            lines += ["", f"  {table.caption}"] if n else []
            lines += _columns(table)
        lines += [f"  {line}" for line in section.lines]
    return lines


def _columns(table: Table) -> list[str]:
    left = sum(not head.number for head in table.head)
    rows = [[head.text for head in table.head], *([cell.text for cell in row] for row in table.rows)]
    return columns(rows, left=left)
