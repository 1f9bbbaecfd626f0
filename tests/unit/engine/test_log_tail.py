"""The end of a log: read from its end, whatever its size and its content."""

from __future__ import annotations

from pathlib import Path

from pytest_ngram.engine import log_tail

TEBIBYTE = 2**40


def test_only_the_end_is_read(tmp_path: Path) -> None:
    """Of a log of 1 TiB, which fits in no memory, the last lines are returned, oldest first."""
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.truncate(TEBIBYTE)  # a hole: it takes no room on the disk
        file.seek(TEBIBYTE)
        file.write(b"\n" + b"".join(b"line %d\n" % number for number in range(20_000)))
    assert log_tail.size_bytes(log) > TEBIBYTE
    assert log_tail.tail(log, 3) == ("line 19997", "line 19998", "line 19999")


def test_a_line_cut_in_two_is_left_out(tmp_path: Path) -> None:
    """Where the part that is read begins inside a line, that line is not shown as if it were whole."""
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * 100_000 + b"\nwhole\n")
    assert log_tail.tail(log) == ("whole",)


def test_a_long_line_is_cut_and_a_missing_log_is_empty(tmp_path: Path) -> None:
    """A line has 500 characters at most; no file has no lines and no bytes."""
    log = tmp_path / "server.log"
    log.write_bytes(b"y" * 3000 + b"\n")
    assert log_tail.tail(log) == ("y" * 500,)
    assert log_tail.tail(tmp_path / "none") == ()
    assert log_tail.size_bytes(tmp_path / "none") == 0
