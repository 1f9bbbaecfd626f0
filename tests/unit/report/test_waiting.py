"""The line that shows waiting: what it says, how it is cut, and when it is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.measure.events import Asking, Building, Loading, Opening, Standing, WarmingUp
from pytest_ngram.report.waiting import EveryMinute, Waits, cut, width


def line(*events: object, standing: Standing | None = None, after_s: float = 0.0) -> str | None:
    waits = Waits()
    if standing is not None:
        waits.stands(standing, 0.0)
    for event in events:
        waits.began(event, 0.0)  # type: ignore[arg-type]
    return waits.line(after_s)


def test_every_wait_says_how_far_it_is() -> None:
    """A load has its size, a table its messages and tokens, a cell its tokens; all have their seconds."""
    assert line(Loading("m/none/t0/b1", "m.gguf", 14_000_000_000), after_s=42) == (
        "ngram: loading 14.0 GB, 42 s: m/none/t0/b1 (m.gguf)"
    )
    assert line(Building("demo", "m", 86, 549, 30008), after_s=2) == (
        "ngram: building table demo, 86 of 549 messages, 30008 tokens, 2 s: m"
    )
    assert line(Asking("m/none/p/t0/b1", 64, 48, 100), after_s=3) == (
        "ngram: 48 of 64 tokens, 3 s: m/none/p/t0/b1"
    )
    assert line(Asking("m/none/p/t0/b1", 64, 0, 100), after_s=3) == (
        "ngram: reading the prompt, 100 tokens read, 3 s: m/none/p/t0/b1"
    )
    assert line(WarmingUp("m/none/t0/b1")) == "ngram: warming up, 0 s: m/none/t0/b1"
    assert line(Opening("m.gguf")) == "ngram: opening the model, 0 s: m.gguf"
    assert line() is None


def test_cells_done_and_time_left_come_first() -> None:
    """The time left gets less between two cells, and is never negative or made up."""
    event = WarmingUp("x")
    begin = line(event, standing=Standing(3, 10, 100.0, False), after_s=30)
    assert begin is not None
    assert begin.startswith("ngram: 3/10 cells, 1 min 10 s left | ")
    assert "at least 1 min 10 s left" in str(line(event, standing=Standing(3, 10, 100.0, True), after_s=30))
    assert "later than estimated" in str(line(event, standing=Standing(3, 10, 20.0, False), after_s=30))
    assert "time left unknown" in str(line(event, standing=Standing(0, 10, None, True), after_s=30))


def test_time_left_stands_still_while_something_is_made_once() -> None:
    """A table of minutes is in no estimate, so it does not use the estimate up."""
    waits = Waits()
    waits.stands(Standing(0, 2, 100.0, False), 0.0)
    building, loading = Building("demo", "m"), Loading("m/tokenize", "m.gguf", 1)
    waits.began(building, 10.0)
    waits.began(loading, 20.0)
    assert "1 min 30 s left" in str(waits.line(500.0))
    waits.ended(loading, 500.0)
    waits.ended(building, 600.0)
    waits.began(WarmingUp("x"), 600.0)
    assert "1 min 25 s left" in str(waits.line(605.0))


def test_progress_is_of_the_wait_that_it_belongs_to() -> None:
    """A server that is loaded while a table is built is shown, and the table's count goes on below it."""
    waits = Waits()
    waits.began(Building("demo", "m"), 0.0)
    loading = Loading("m/tokenize", "m.gguf", 1)
    waits.began(loading, 0.0)
    waits.went_on(Building("demo", "m", 5, 9, 70))
    assert "loading" in str(waits.line(1.0))
    waits.ended(loading, 1.0)
    assert "5 of 9 messages, 70 tokens" in str(waits.line(1.0))


def test_a_wait_that_was_cut_off_leaves_nothing() -> None:
    """Ctrl-C may come before a wait has begun or within another: what ended is never shown again."""
    waits = Waits()
    waits.ended(WarmingUp("x"), 0.0)
    building = Building("demo", "m")
    waits.began(building, 0.0)
    waits.began(WarmingUp("x"), 0.0)
    waits.ended(building, 1.0)
    assert waits.line(1.0) is None


@given(st.text(), st.integers(1, 200))
def test_a_line_fits_the_terminal_and_moves_no_cursor(text: str, columns: int) -> None:
    """Whatever a prompt is called, no more than the columns and no control character is written."""
    short = cut(text, columns)
    assert width(short) <= columns
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in short)


def test_a_plain_line_comes_once_a_minute_and_not_in_the_first() -> None:
    """A run shorter than a minute says nothing; then one line each minute, however often it is asked."""
    minute = EveryMinute()
    due = [second / 2 for second in range(2 * 200) if minute.due(1000 + second / 2)]
    assert due == [60, 120, 180]


def test_after_a_pause_lines_do_not_pile_up() -> None:
    """Nothing was waited for in five minutes: one line is due then, not five."""
    minute = EveryMinute()
    minute.due(0.0)
    assert [minute.due(300.0), minute.due(301.0), minute.due(359.0), minute.due(360.0)] == [
        True,
        False,
        False,
        True,
    ]


def test_reading_the_prompt_is_told() -> None:
    """Before the first token the prompt is read, whether or not the server has answered in between."""
    cell = "m/none/p/t0/b1"
    assert line(Asking(cell, 64, 0, 0), after_s=5) == f"ngram: reading the prompt, 5 s: {cell}"
    assert line(Asking(cell, 64), after_s=5) == f"ngram: reading the prompt, 5 s: {cell}"
    assert line(Asking(cell, 64), after_s=1) == f"ngram: 64 tokens, 1 s: {cell}"


def test_a_narrow_terminal_keeps_the_config_and_the_prompt() -> None:
    """What tells one cell from the next is worth more than the model's name, or its file's."""
    waits = Waits()
    waits.began(Asking("a-model-with-a-long-name/ngram-mod/code-1/t0/b1", 64, 48, 9), 0.0)
    short = str(waits.line(3.0, 58))
    assert width(short) == 58
    assert short.endswith("…/ngram-mod/code-1/t0/b1")
    assert cut(str(waits.line(3.0, 50)), 50).startswith("ngram: 48 of 64 tokens, 3 s: …/ngram-mod/code-1")
    waits.began(Loading("a-model-with-a-long-name/ngram-mod/t0/b1", "m.gguf", 1), 0.0)
    assert str(waits.line(3.0, 50)).endswith("…/ngram-mod/t0/b1")
