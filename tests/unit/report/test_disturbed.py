"""What the table says of cells that others disturbed."""

from __future__ import annotations

from pytest_ngram.report.terminal import table_lines
from pytest_ngram.verdict.summary import ModelSummary


def notes_of(**counts: int) -> str:
    counts = {"contended": 0, "paged": 0} | counts
    summary = ModelSummary(model="m", temperature=0.0, rows=(), noise=None, prompts=1, **counts)
    return "\n".join(table_lines(summary))


def test_a_quiet_run_says_nothing() -> None:
    """No mark, no line."""
    assert "contended" not in notes_of()
    assert "measured again" not in notes_of()


def test_marks_and_repeats_are_counted() -> None:
    """Contended and throttled cells, requests that were measured again, and cells that could not be."""
    notes = notes_of(contended=3, throttled=1, repeated=4, stateful=2)
    assert "3 cells contended" in notes
    assert "1 cell throttled: the machine was too hot" in notes
    assert "4 requests measured again since they were disturbed; the quietest are kept" in notes
    assert "2 cells disturbed and not measured again: their configs keep state between requests" in notes
