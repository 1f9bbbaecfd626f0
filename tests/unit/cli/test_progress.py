"""What is shown of a long build."""

from __future__ import annotations

import io

from pytest_ngram.cli.progress import Shown, line
from pytest_ngram.table.build import Progress

HALF = Progress(of_messages=10, of_bytes=8_000_000, messages=4, size_bytes=2_000_000, tokens=500, known=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_has_size_rate_and_time_left() -> None:
    """2 of 8 MB after 4 s: half a MB a second, 12 s to go; before the first MB there is no rate."""
    assert line(HALF, 4.0) == "2.0 of 8.0 MB, 4 messages, 500 tokens, 0.50 MB/s, 12 s left"
    assert line(Progress(10, 8_000_000), 4.0) == "0.0 of 8.0 MB, 0 messages, 0 tokens"


def test_off_a_terminal_a_line_comes_every_ten_seconds() -> None:
    """No bar in a log, no flood, and the newest state is at hand."""
    times = iter([0.0, 1.0, 9.9, 10.0, 19.0, 20.5])
    out = io.StringIO()
    with Shown(out, clock=lambda: next(times)) as shown:
        for _ in range(5):
            shown(HALF)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert all("MB/s" in each and "left" in each for each in lines)
    assert shown.newest == HALF


def test_on_a_terminal_a_bar_is_drawn_and_taken_away() -> None:
    """With the rate, the time left and the tokens; at the end the line is clean."""
    out = Terminal()
    with Shown(out) as shown:
        shown(HALF)
        shown.say("something else")
    text = out.getvalue()
    assert "tokenizing" in text
    assert "2.00M/8.00M" in text
    assert "500 tokens" in text
    assert "something else\n" in text
    assert text.endswith("\r"), "the bar is erased"
