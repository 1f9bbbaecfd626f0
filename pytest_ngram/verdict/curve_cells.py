"""What the cells of runs add to a cost curve. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.record import Record
from pytest_ngram.verdict.contention import is_contended, is_throttled
from pytest_ngram.verdict.curve import Drafted, Timed, timed
from pytest_ngram.verdict.summary import BASELINE

DECODES = "draft-"  # how the names of types begin that draft with a decode of their own


def is_timed(record: Record) -> bool:
    """Whether a cell ended well and nothing disturbed it: else its steps would be those of two programs."""
    return record.outcome.status == "ok" and not is_contended(record) and not is_throttled(record)


def steps_of(
    runs: Iterable[Iterable[Record]], *, first_block: int = 1, commonest: bool = False
) -> tuple[list[Timed], list[Drafted]]:
    """Return the timed steps and drafts of cells of one model.

    Args:
        runs: the cells of each run. A block is one of a run and of a temperature: what lies hours apart is
            not divided by each other.
        first_block: the number of the first of these blocks; the others follow.
        commonest: of a drafter that decodes only the commonest width of a request enters. It drafts less
            where an answer ends, and such a decode builds its graph anew, which one of a smaller n_max
            would not.
    """
    steps: list[Timed] = []
    drafted: list[Drafted] = []
    blocks: dict[tuple[int, float, int], int] = {}
    for number, records in enumerate(runs):
        for record in records:
            cell = record.cell
            block = blocks.setdefault((number, cell.temperature, cell.block), first_block + len(blocks))
            for round_ in record.rounds:
                own, prices = timed(round_, block, baseline=cell.config == BASELINE)
                if commonest and any(step.drafter.startswith(DECODES) for step in own):
                    own = [max(own, key=lambda step: step.n)]
                steps += own
                drafted += prices
    return steps, drafted
