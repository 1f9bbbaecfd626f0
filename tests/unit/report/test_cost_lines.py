"""Where a token's time goes, below the table of a model."""

from __future__ import annotations

import msgspec

from pytest_ngram.record import Cost
from pytest_ngram.report.terminal import cost_lines, table_lines
from pytest_ngram.verdict.summary import ModelSummary, Row

NONE = Cost(0.0, 0.0, 0.0, 4.145, 0.0, "alone")
MTP3 = Cost(0.223, 2.466, 0.0, 0.0, 0.0004, "alone")


def row(config: str, cost: Cost | None, **more: object) -> Row:
    plain = Row(config, None, None, None, None, None, None, None, 1, {}, 1, 1)
    return msgspec.structs.replace(plain, cost=cost, **more)


def summary(*rows: Row, **more: object) -> ModelSummary:
    return msgspec.structs.replace(ModelSummary("m", 0.0, rows, None, 1, 0, 0), **more)


def test_each_part_stands_in_its_column() -> None:
    """One row a config, with the mean accepted length and the step times by width."""
    mtp = row("mtp3", MTP3, mean_accepted_length=3.55, step_ms={2: 5.31, 4: 8.77})
    lines = cost_lines(summary(row("none", NONE, step_ms={1: 4.15}), mtp))
    assert lines[2].split()[:7] == ["config", "draft", "verify", "replay", "plain", "rest", "accepted"]
    assert lines[3].split() == ["none", "0.000", "0.000", "0.000", "4.145", "0.000", "—", "1:", "4.15"]
    assert lines[4].split()[1:7] == ["0.223", "2.466", "0.000", "0.000", "0.000", "3.55"]
    assert lines[4].endswith("2: 5.31, 4: 8.77")
    assert all(line in table_lines(summary(row("none", NONE, step_ms={1: 4.15}), mtp)) for line in lines)


def test_where_nothing_drafted_nothing_is_split() -> None:
    """The baseline alone, or records from before the trace was read, have no such table."""
    assert cost_lines(summary(row("none", NONE))) == []
    assert cost_lines(summary(row("none", None), row("mtp3", None))) == []


def test_what_is_not_sure_is_marked() -> None:
    """`~` where plain and verify steps could not be told apart, and a line that says what it means."""
    unclear = msgspec.structs.replace(MTP3, plain_from="unclear")
    lines = table_lines(summary(row("mtp3", unclear)))
    assert any("~2.466" in line for line in lines)
    assert any(line.strip().startswith("~:") for line in lines)


def test_what_is_not_explained_is_told_with_the_config() -> None:
    """A generation time that the steps do not make up, requests without a trace, a client that waited."""
    odd = msgspec.structs.replace(MTP3, unexplained="3 of 50 ms")
    lines = table_lines(summary(row("mtp3", odd), unread=("the line is odd",), apart=2))
    said = "\n".join(lines)
    assert "do not make up the generation time: mtp3" in said
    assert "1 request without a step trace: the line is odd" in said
    assert "2 cells: the client waited" in said


def test_a_narrow_terminal_cuts_the_step_times() -> None:
    """No line is longer than the terminal, and a cut one says so."""
    lines = cost_lines(summary(row("mtp3", MTP3, step_ms=dict.fromkeys(range(2, 30), 9.99))), 90)
    assert max(map(len, lines)) <= 90
    assert lines[-1].endswith("…")
