"""What a report of 500 cells costs, out of a saved run whose cells are taken again until there are so many.

* HTML, the verdict over its cells included: <= 3 s, <= 3 MB
* Markdown: a comment of a pull request holds 65 536 characters
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from goals import verdict
from msgspec.structs import replace

from pytest_ngram.measure.run_file import read_run
from pytest_ngram.record import Record, RunData
from pytest_ngram.report.html import page
from pytest_ngram.report.markdown import markdown
from pytest_ngram.report.page import Shown
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records

CELLS = 500
GOAL_S, GOAL_MB, GOAL_LETTERS = 3.0, 3.0, 65_536
REPEATS = 5


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python perf/report.py RUN.json (a run that pytest bench saved)")
    run = read_run(Path(sys.argv[1]))
    cells = many(run)
    models = {(cell.cell.model, cell.cell.temperature) for cell in cells}
    print(
        f"{len(cells)} cells of {len(models)} models and temperatures, from {len(run.records)} measured ones"
    )
    first_s, text = timed(lambda: page(shown(cells, run)))  # loads matplotlib, as each command does
    least_s = min(timed(lambda: page(shown(cells, run)))[0] for _ in range(REPEATS))
    letters = len(markdown(shown(cells, run)))
    met = [
        verdict("HTML, the first in a process", first_s, GOAL_S, "s"),
        verdict(f"HTML, the fastest of {REPEATS} more", least_s, GOAL_S, "s"),
        verdict("HTML", len(text.encode()) / 1e6, GOAL_MB, "MB"),
        verdict("Markdown", letters, GOAL_LETTERS, "characters"),
    ]
    return 0 if all(met) else 1


def many(run: RunData) -> list[Record]:
    """Cells of the run, and again as those of further blocks, until there are enough."""
    blocks = max(record.cell.block for record in run.records)
    cells = list(run.records)
    for again in range(1, -(-CELLS // len(cells)) + 1):
        cells += [later(record, again * blocks) for record in run.records]
    return cells[:CELLS]


def later(record: Record, blocks: int) -> Record:
    """A cell as one of a later block."""
    return replace(record, cell=replace(record.cell, block=record.cell.block + blocks))


def shown(cells: list[Record], run: RunData) -> Shown:
    """What the report is of, judged anew."""
    order = sorted({record.cell.config for record in cells})
    return Shown(cells, judge(from_records(cells), config_order=order), run, order)


def timed(made: Callable[[], str]) -> tuple[float, str]:
    """Return the seconds that it took, and what was made."""
    begin_s = time.perf_counter()
    text = made()
    return time.perf_counter() - begin_s, text


if __name__ == "__main__":
    sys.exit(main())
