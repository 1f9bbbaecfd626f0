"""Waiting is shown: a live line on a terminal, which never stays, and plain lines elsewhere."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

DEADLINE_S = 120.0
PLAIN = "none or mtp1"
OURS = re.compile(r"ngram: (?:\d+/\d+ cells|opening|loading|warming)")
MANY_LINES = """
import pytest_ngram.pytest_fixtures.live as live
from pytest_ngram.report.waiting import EveryMinute

live.EveryMinute = lambda: EveryMinute(interval_s=0.001)
live._TICK_S = 0.01
"""


@dataclass
class Shown:
    """What pytest wrote to a terminal."""

    code: int
    raw: str
    columns: int

    @property
    def screen(self) -> list[str]:
        """The lines that are left to be seen, scrolled ones too, by the controls that pytest and we use."""
        lines: list[list[str]] = [[]]
        row = column = 0
        for part in re.findall(
            r"\x1b\[\??[\d;]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\x1b]", self.raw
        ):
            if part == "\n":
                row += 1
                lines += [[] for _ in range(row + 1 - len(lines))]
            elif part == "\r":
                column = 0
            elif part == "\x1b[2K":
                lines[row] = []
            elif part == "\x1b[K":
                del lines[row][column:]
            elif part == "\x1b[A":
                row -= 1
            elif part.startswith("\x1b["):
                assert part[-1] in "Cm", f"an unknown control {part!r}"
                column += int(part[2:-1]) if part[-1] == "C" else 0
            elif part.isprintable():
                lines[row] += [" "] * (column + 1 - len(lines[row]))
                lines[row][column] = part
                column += 1
        return ["".join(line).rstrip() for line in lines]

    @property
    def drawn(self) -> list[str]:
        """Every live line, as it was written."""
        return re.findall(r"\r\x1b\[2K(ngram: [^\r\n\x1b]*)", self.raw)


Watch = Callable[[str], bytes]


def on_terminal(
    project: Project,
    *options: str,
    term: str = "xterm",
    columns: int = 100,
    type_: Watch = lambda seen: b"",
) -> Shown:
    """Run `pytest bench` on a terminal of its own; `type_` may answer with keys to what was seen so far."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "bench",
        "--ngram-repeats=0",
        "-p",
        "no:cacheprovider",
        "--benchmark-quiet",
        *options,
    ]
    environment = {**os.environ, "TERM": term, "COLUMNS": str(columns)}
    process = subprocess.Popen(
        command,
        cwd=project.path,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # so that Ctrl-C is a key of this terminal
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one call, no lock
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.05)[0]:
                try:
                    seen += os.read(ours, 65536)
                except OSError:  # nobody holds the other end any more
                    break
            keys = type_(seen.decode(errors="replace"))
            if keys:
                os.write(ours, keys)
        code = process.wait(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            process.kill()
        os.close(ours)
    return Shown(code, seen.decode(errors="replace"), columns)


def test_waiting_is_shown_on_a_terminal_and_leaves_nothing(project: Project) -> None:
    """Loads, warm-ups and cells are seen while they run; in the end pytest's own output is all there is."""
    project.edit("n_predict: 48", "n_predict: 2000")
    shown = on_terminal(project, "-k", PLAIN)
    assert shown.code == 0, shown.raw
    drawn = "\n".join(shown.drawn)
    assert re.search(r"ngram: 0/6 cells, .*\| loading 1\.8 MB, \d+ s: tiny/none/t0/b1/first", drawn)
    assert re.search(r"warming up, \d+ s: tiny/none/t0/b1/first", drawn)
    assert re.search(r"ngram: 5/6 cells, .* left \| 2000 tokens, \d+ s: tiny/none/", drawn)
    screen = shown.screen
    assert not any(OURS.search(line) for line in screen), screen
    assert re.fullmatch(r"bench/test_cells.py \.{6} +\[100%\]", next(x for x in screen if "py ." in x))


def test_the_running_cell_tells_its_tokens(project: Project) -> None:
    """A cell of more than a few seconds shows how many tokens the server has made, out of those asked for."""
    project.edit("hang_after_s: 3", "hang_after_s: 30")
    project.edit("n_predict: 48", "n_predict: 900")
    project.edit("generate: {target: 0.7}", "generate: {target: 0.7, layers: 16, width: 8192}")
    shown = on_terminal(project, "-k", "none and word-en and first")
    assert shown.code == 0, shown.raw
    counts = [int(n) for n in re.findall(r"\| (\d+) of 900 tokens, \d+ s: tiny/none/word-en", shown.raw)]
    assert counts
    assert counts == sorted(counts)
    assert 0 < counts[-1] <= 900


@pytest.mark.parametrize("columns", [30, 62])
def test_the_line_is_cut_to_the_terminal(project: Project, columns: int) -> None:
    """It never wraps, for a wrapped line could not be taken away."""
    shown = on_terminal(project, "-v", "-k", "mtp1", columns=columns)
    assert shown.code == 0
    assert shown.drawn
    assert max(map(len, shown.drawn)) < columns


def test_live_logging_and_warnings_stay_whole(project: Project) -> None:
    """What is logged and warned of in the middle of a wait is all there, on lines of its own."""
    project.edit("flags: -c 4096 -t 1", "flags: -c 4096 -t 1 -np 2")
    options = ("-o", "log_cli=true", "-o", "log_cli_level=INFO")
    shown = on_terminal(project, "-k", "mtp1", *options, columns=200)
    assert shown.code == 0, shown.raw
    assert shown.drawn
    screen = shown.screen
    assert not any(OURS.search(line) for line in screen)
    logged = [line for line in screen if "HTTP Request" in line]
    assert logged
    assert all(re.match(r"INFO +httpx", line) and line.endswith('OK"') for line in logged)
    assert any(line.startswith("warning: ") and "--parallel 2" in line for line in screen)


def test_ctrl_c_takes_the_line_away(project: Project) -> None:
    """The line is gone, the summary stands, and the run ends at once, its thread with it."""
    project.edit("n_predict: 48", "n_predict: 2000")
    project.edit("blocks: 1", "blocks: 50")
    keys = [b"\x03"]
    shown = on_terminal(project, type_=lambda seen: keys.pop() if keys and "ngram: 3/" in seen else b"")
    assert shown.code == 2
    assert shown.drawn
    screen = shown.screen
    assert not any(OURS.search(line) for line in screen), screen
    assert any("not measured" in line for line in screen)
    assert any(line.startswith("time: ") and "for all: " in line for line in screen)


@pytest.mark.parametrize(
    ("term", "options"),
    [("dumb", ()), ("xterm", ("-s",)), ("xterm", ("-qq",)), ("xterm", ("-p", "no:terminal"))],
)
def test_where_nothing_can_be_rewritten_nothing_is(
    project: Project, term: str, options: tuple[str, ...]
) -> None:
    """On a dumb terminal, where tests write past us, and where quiet was asked for, no line is drawn."""
    shown = on_terminal(project, "-k", "mtp1", *options, term=term)
    assert shown.code == 0
    assert shown.drawn == []
    assert "\x1b[2K" not in shown.raw
    assert not OURS.search(shown.raw)


def test_a_short_run_in_a_pipe_says_nothing(project: Project) -> None:
    """In CI no control characters are written, and none of our lines within the first minute."""
    result = project.run("-k", PLAIN)
    assert result.ret == 0
    output = result.stdout.str() + result.stderr.str()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", output)
    assert not OURS.search(output)


def test_a_long_run_in_a_pipe_has_plain_lines(project: Project) -> None:
    """Lines of their own, without control characters, with what is waited for and how far the run is."""
    project.edit("n_predict: 48", "n_predict: 2000")
    (project.path / "conftest.py").write_text(MANY_LINES)
    result = project.run("-k", "mtp1")
    assert result.ret == 0
    output = result.stdout.str()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", output)
    lines = [line for line in result.outlines if line.startswith("ngram: ") and "cells," in line]
    assert any("loading 1.8 MB" in line for line in lines), output
    assert any(re.search(r"ngram: 1/2 cells, .* left \| 2000 tokens", line) for line in lines), output
    assert sum(
        line.count(".") for line in result.outlines if re.fullmatch(r"(bench/test_cells.py )?\.+.*", line)
    )


def test_a_pytest_within_a_pytest_is_left_alone(project: Project) -> None:
    """An inner run in the same process has no output of its own to draw on, and leaves no thread behind."""
    result = project.pytester.runpytest_inprocess("bench", "-p", "no:cacheprovider", "--collect-only", "-q")
    assert result.ret == 0
    assert [thread.name for thread in threading.enumerate() if thread.name == "ngram-live"] == []


def test_a_narrow_terminal_has_a_table_that_fits(project: Project) -> None:
    """At 80 columns the table is not wrapped: what is left out is named, and in a pipe nothing is."""
    rows = re.compile(r"  (?:config|none|mtp1) .*")
    shown = on_terminal(project, "-k", PLAIN, columns=80)
    assert shown.code == 0
    tables = [text for text in shown.screen if rows.fullmatch(text)][
        :6
    ]  # below them the verdict names configs
    assert [text.split()[0] for text in tables] == ["config", "none", "mtp1"] * 2  # speeds, then costs
    assert max(map(len, tables)) <= 80
    assert any(text.startswith("  columns left out for want of width: RSS MiB") for text in shown.screen)
    piped = project.run("-k", PLAIN)
    piped.stdout.fnmatch_lines(["  config *RSS MiB*"])
    piped.stdout.no_fnmatch_line("*left out for want of width*")
