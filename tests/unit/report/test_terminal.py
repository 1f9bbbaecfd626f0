"""The terminal table says what it knows and marks what it does not."""

from __future__ import annotations

import pytest

from pytest_ngram.record import Cell, Outcome, Record
from pytest_ngram.report.terminal import failure_lines, table_lines
from pytest_ngram.verdict.summary import ModelSummary, Row, Spread


def a_row(config: str, **changes: object) -> Row:
    fields: dict[str, object] = {
        "config": config,
        "tg": Spread(value=50.0, low=48.0, high=52.0, blocks=3),
        "change": None if config == "none" else Spread(value=0.25, low=0.2, high=0.3, blocks=3),
        "acceptance": 0.875,
        "coverage": 0.5,
        "tokens_per_step": 1.5,
        "pp": 123.4,
        "rss_mb": 99.6,
        "cells": 12,
        "failed": {},
        "prompts": 4,
        "prompts_of_change": 4,
    }
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


def lines_of(*rows: Row, noise: float | None = 0.021, contended: int = 0, paged: int = 0) -> list[str]:
    return table_lines(
        ModelSummary(
            model="m", temperature=0.0, rows=rows, noise=noise, prompts=4, contended=contended, paged=paged
        )
    )


def test_a_row_shows_every_number_with_its_spread() -> None:
    """tg and change with their range over blocks, acceptance with its coverage."""
    line = lines_of(a_row("none"), a_row("mtp1"))[4]
    for text in (
        "mtp1",
        "50.0",
        "48.0…52.0",
        "+25.0%",
        "+20.0%…+30.0%",
        "0.875 @ 50%",
        "1.50",
        "123.4",
        "100",
        "12 ok",
    ):
        assert text in line


def test_the_title_tells_the_noise() -> None:
    """How far the two passes of the baseline lie apart stands above the table."""
    assert (
        lines_of(a_row("none"))[0]
        == "m: 4 prompts, temperature 0; none first and last in a block differ by up to 2.1%"
    )


def test_without_a_baseline_no_percent_is_shown() -> None:
    """`-k mtp` leaves the baseline out: a dash and how to get it, never a percent."""
    lines = lines_of(a_row("mtp1", change=None), noise=None)
    assert "%…" not in lines[3]
    assert "—, add `or none`" in lines[3]
    assert any("add `or none` to -k" in line for line in lines[4:])


def test_acceptance_never_stands_alone() -> None:
    """Unknown coverage is shown as unknown beside the acceptance."""
    assert "0.875 @ —" in lines_of(a_row("none"), a_row("mtp1", coverage=None))[4]


def test_a_config_that_drafted_nothing_says_so() -> None:
    """0 of 0 is neither 0 nor 1."""
    assert "nothing drafted" in lines_of(a_row("none"), a_row("x", acceptance=None, coverage=0.0))[4]


def test_failed_cells_are_counted_by_outcome() -> None:
    """A row tells how many of its cells did not end well, and why."""
    line = lines_of(a_row("none"), a_row("x", tg=None, change=None, failed={"hang": 1, "crash": 2}))[4]
    assert "9 ok, 2 crash, 1 hang" in line
    assert " 0.0" not in line


def test_one_block_has_no_spread() -> None:
    """A single block shows a dash where its range would be, and a note."""
    one = Spread(value=50.0, low=50.0, high=50.0, blocks=1)
    lines = lines_of(a_row("none", tg=one))
    assert "50.0…" not in lines[3]
    assert lines[-1].strip() == "one block only: no spread can be told"


def test_columns_line_up() -> None:
    """Every cell of a column ends where its header ends (the first column: begins), whatever it holds."""
    lines = lines_of(a_row("none"), a_row("mtp1+ngram-simple"), a_row("x", tg=None, change=None))
    rules = lines[2]
    ends = [i for i, mark in enumerate(rules) if mark == "-" and rules[i + 1 : i + 2] in ("", " ")]
    for line in (lines[1], *lines[3:6]):
        assert line.startswith("  ")
        for end in ends[1:]:
            assert line[end : end + 1].strip()
            assert line[end + 1 : end + 3].strip() == ""


@pytest.mark.parametrize(("change", "marked"), [(0.02, True), (-0.02, True), (0.022, False), (-0.022, False)])
def test_a_change_within_the_noise_is_marked(change: float, marked: bool) -> None:
    """What the baseline's own two passes differ by (2.1 %) is told as noise, in both directions."""
    spread = Spread(value=change, low=change, high=change, blocks=3)
    assert (f"noise {change:+.1%}" in lines_of(a_row("none"), a_row("x", change=spread))[4]) == marked


def test_a_row_of_some_prompts_says_so() -> None:
    """A row that leaves prompts out tells how many it is of."""
    lines = lines_of(a_row("none"), a_row("x", prompts=3, prompts_of_change=3, failed={"crash": 1}))
    assert "  x: tells of 3 of 4 prompts, those that always ended well" in lines
    stopped = lines_of(a_row("none"), a_row("x", prompts=3, prompts_of_change=3))
    assert "  x: tells of 3 of 4 prompts, those that were measured" in stopped


def test_contention_and_paging_stand_below_the_table() -> None:
    """What makes numbers doubtful is told with them."""
    lines = lines_of(a_row("none"), contended=5, paged=2)
    assert "5 cells contended: others took cores" in lines[-2]
    assert "2 cells read the model from disk" in lines[-1]


def failed(config: str, prompt: str, status: str, reason: str) -> Record:
    cell = Cell(
        model="m",
        config=config,
        prompt=prompt,
        prompt_set="s",
        temperature=0.7,
        block=2,
        pass_="first",
        position=0,
    )
    return Record(
        cell=cell,
        model=None,
        engine=None,
        server=None,
        rounds=(),
        memory=None,
        host=None,
        table=None,
        outcome=Outcome(status=status, reason=reason),  # type: ignore[arg-type]
    )


def test_an_inert_config_shows_no_number_and_no_baseline_of_its_own() -> None:
    """Neither fast nor zero: dashes, and how many cells were inert."""
    row = a_row(
        "x",
        tg=None,
        change=None,
        acceptance=None,
        coverage=None,
        tokens_per_step=None,
        pp=None,
        rss_mb=None,
        failed={"inert": 12},
        prompts=0,
    )
    line = lines_of(a_row("none"), row)[4]
    assert line.split() == ["x", *["—"] * 8, "0", "ok,", "12", "inert"]


def test_an_expected_abstention_is_shown_as_one() -> None:
    """The row keeps its numbers, is marked, and a note below tells why."""
    row = a_row("x", acceptance=None, coverage=0.0, abstained="inert, as expected: long matches")
    lines = lines_of(a_row("none"), row)
    assert "12 ok, inert as expected" in lines[4]
    assert "nothing drafted" in lines[4]
    assert lines[-1].strip() == "x: inert, as expected: long matches"


def test_a_failure_tells_what_was_checked_if_it_is_short() -> None:
    """A path stands behind the cause; what is long, or differs from cell to cell, stays in its block."""
    lines = failure_lines(
        [
            failed("a", "p", "refused", "the model file does not exist\n  checked: /m/x.gguf\n  to do: look"),
            failed("a", "q", "refused", "the model file does not exist\n  checked: /m/x.gguf\n  to do: look"),
            failed("b", "p", "hang", "no answer\n  checked: 3 s\n  to do: wait"),
            failed("b", "q", "hang", "no answer\n  checked: 4 s\n  to do: wait"),
            failed("c", "p", "crash", f"it ended\n  checked: {'x' * 200}\n  to do: look"),
        ]
    )
    assert lines == [
        "refused: m/a/p/t0.7/b2 and 1 more: the model file does not exist (/m/x.gguf)",
        "hang: m/b/p/t0.7/b2 and 1 more: no answer",
        "crash: m/c/p/t0.7/b2: it ended",
    ]


def test_failures_are_told_once_each() -> None:
    """A line per reason; of an inert config a line for all of its cells."""
    lines = failure_lines(
        [
            failed("x", "p", "inert", "it never drafted\n  checked: much"),
            failed("a", "p", "crash", "signal"),
            failed("x", "q", "inert", "it never drafted\n  checked: much"),
            failed("a", "q", "crash", "signal"),
            failed("y", "p", "inert", "it never drafted"),
        ]
    )
    assert lines == [
        "inert: m/x at temperature 0.7, 2 cells: it never drafted",
        "crash: m/a/p/t0.7/b2 and 1 more: signal",
        "inert: m/y at temperature 0.7, 1 cell: it never drafted",
    ]


def test_a_narrow_terminal_leaves_columns_out_and_says_so() -> None:
    """RSS goes first, then pp, then the ranges over blocks; the rest of the table stays whole."""
    summary = ModelSummary(
        model="m",
        temperature=0.0,
        rows=(a_row("none"), a_row("mtp1")),
        noise=0.1,
        prompts=4,
        contended=0,
        paged=0,
    )
    whole = table_lines(summary)
    full = max(map(len, whole[1:5]))
    assert table_lines(summary, full) == whole
    one = table_lines(summary, full - 1)
    assert "RSS MiB" not in one[1]
    assert "pp t/s" in one[1]
    assert one[-1] == "  columns left out for want of width: RSS MiB; all are in the JSON"
    narrow = table_lines(summary, 80)
    assert max(map(len, narrow[1:5])) <= 80
    assert narrow[-1].startswith("  columns left out for want of width: RSS MiB, pp t/s")
    least = table_lines(summary, 10)
    assert least[1].split() == [
        "config",
        "tg",
        "t/s",
        "vs",
        "none",
        "accept",
        "@",
        "coverage",
        "tok/step",
        "cells",
    ]


def test_a_change_over_fewer_cells_than_its_speeds_is_told() -> None:
    """Two speeds of different prompts or blocks do not make the change that stands beside them."""
    note = "mtp1: its change is over 2 prompts × 1 block, which it shares with none; the speeds are of more"
    fewer = Spread(value=-0.1, low=-0.1, high=-0.1, blocks=1)
    one = Spread(value=50.0, low=50.0, high=50.0, blocks=1)
    lines = lines_of(
        a_row("none", tg=one), a_row("mtp1", tg=one, prompts=2, prompts_of_change=2, change=fewer)
    )
    assert any(note in text for text in lines)
    lines = lines_of(a_row("none"), a_row("mtp1", prompts_of_change=2, change=fewer))
    assert any(note in text for text in lines)
    assert not any("its change is" in text for text in lines_of(a_row("none"), a_row("mtp1")))
