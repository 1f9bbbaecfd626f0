"""Shows what a run waits for: a live line on a terminal, a plain line a minute elsewhere.

pytest captures file descriptor 1 while a test runs, so the line goes to a duplicate of the real one. It
stands below what pytest has written of its own line, and is taken away before pytest writes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, cast

import pytest

from pytest_ngram.measure.events import SILENT, Event, Listener, Standing
from pytest_ngram.report.waiting import EveryMinute, Waits, cut

LISTENER = pytest.StashKey[Listener]()

_TICK_S = 0.5
_CLEAR_LINE = "\r\x1b[2K"


class Live:
    """A listener that shows. Make it with `listener_of`.

    Args:
        fd: a duplicate of the real output, which is closed in the end.
        writer: pytest's terminal writer, whose lines come first.
        rewrites: whether a line can be taken away again; otherwise plain lines are written.
        encoding: of the output.
        minute: when plain lines are due.
    """

    def __init__(
        self, fd: int, writer: Any, *, rewrites: bool, encoding: str, minute: EveryMinute | None = None
    ) -> None:
        self._fd = fd
        self._writer = writer
        self._rewrites = rewrites
        self._encoding = encoding
        self._minute = minute or EveryMinute()
        self._waits = Waits()
        self._shown_below: int | None = None  # the column that pytest's own line had reached; None: not shown
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._owner = os.getpid()
        for name in _WRITES:
            if hasattr(writer, name):
                setattr(writer, name, self._cleared(getattr(writer, name)))
        self._thread = threading.Thread(target=self._tick, name="ngram-live", daemon=True)
        self._thread.start()

    def began(self, event: Event) -> None:
        """Show it."""
        with self._lock:
            self._waits.began(event, time.monotonic())
            if self._rewrites:
                self._draw()

    def went_on(self, event: Event) -> None:
        """Show it at the next tick: this is called while a request is measured."""
        with self._lock:
            self._waits.went_on(event)

    def ended(self, event: Event) -> None:
        """Take the line away, or show what is waited for besides."""
        with self._lock:
            self._waits.ended(event, time.monotonic())
            if not self._waits.waits:
                self._clear()

    def stands(self, standing: Standing) -> None:
        """Note where the run stands."""
        with self._lock:
            self._waits.stands(standing, time.monotonic())

    def close(self) -> None:
        """Take the line away, end the thread, and give pytest its writer back. Safe to call twice."""
        if self._end.is_set():
            return
        self._end.set()
        self._thread.join()
        with self._lock:
            self._clear()
            for name in _WRITES:
                with suppress(AttributeError):
                    delattr(self._writer, name)
            os.close(self._fd)

    def _tick(self) -> None:
        while not self._end.wait(_TICK_S):
            with self._lock:
                if self._end.is_set():
                    return
                if self._rewrites:
                    self._draw()
                elif self._waits.waits and self._minute.due(time.monotonic()):
                    self._say()

    def _draw(self) -> None:
        """Write the line: below pytest's own where that has begun, so that nothing of it is overwritten."""
        size = self._size()
        line = self._waits.line(time.monotonic(), size.columns - 1) if size is not None else None
        if line is None or size is None:
            return
        columns, column = size.columns, self._writer.width_of_current_line
        text = cut(line, columns - 1)
        if self._shown_below is not None:
            self._write(f"{_CLEAR_LINE}{text}")
        elif column == 0:
            self._shown_below = 0
            self._write(f"{_CLEAR_LINE}{text}")
        elif column % columns:  # at the very edge, where the cursor is cannot be told
            self._shown_below = column % columns
            self._write(f"\n{_CLEAR_LINE}{text}")

    def _clear(self) -> None:
        """Take the line away and put the cursor back where pytest left it."""
        if self._shown_below is None:
            return
        back = f"\x1b[A\x1b[{self._shown_below}C" if self._shown_below else ""
        self._shown_below = None
        self._write(f"{_CLEAR_LINE}{back}")

    def _say(self) -> None:
        line = self._waits.line(time.monotonic())
        if line is not None:
            begun = "\n" if self._writer.width_of_current_line else ""
            self._write(f"{begun}{cut(line, 400)}\n")

    def _write(self, text: str) -> None:
        if os.getpid() != self._owner:  # a forked copy of this process has no line of its own
            return
        data = text.encode(self._encoding, errors="replace")
        with suppress(OSError):  # a closed terminal must not end the run
            while data:
                data = data[os.write(self._fd, data) :]

    def _size(self) -> os.terminal_size | None:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return None
        return size if size.columns > 1 else os.terminal_size((80, 24))

    def _cleared(self, original: Callable[..., None]) -> Callable[..., None]:
        """A method of pytest's writer that takes our line away first, and leaves nothing in its buffer."""

        def write(*args: Any, **markup: Any) -> None:
            with self._lock:
                self._clear()
                original(*args, **markup)
                if self._waits.waits:
                    self._writer.flush()

        return write


_WRITES = ("write", "write_raw")


def listener_of(config: pytest.Config) -> Listener:
    """Return who shows what this session waits for: nobody where there is no output of its own to show it on.

    Nothing is shown without pytest's terminal reporter, with `-qq`, and where the output is no file
    descriptor, as in a pytest that runs inside another. With `-s` tests write past us: no line is rewritten.
    """
    if LISTENER not in config.stash:
        config.stash[LISTENER] = _listener(config)
    return config.stash[LISTENER]


def _listener(config: pytest.Config) -> Listener:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() <= -2 or hasattr(config, "workerinput"):
        return SILENT
    writer = config.get_terminal_writer()
    file = getattr(writer, "_file", None)
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
        try:
            fd = os.dup(cast("Any", file).fileno())
        except (AttributeError, OSError, ValueError):
            return SILENT
    captured = config.getoption("capture", "no") in ("fd", "sys")
    rewrites = captured and os.isatty(fd) and os.environ.get("TERM", "dumb") != "dumb"
    live = Live(fd, writer, rewrites=rewrites, encoding=getattr(file, "encoding", None) or "utf-8")
    config.add_cleanup(live.close)
    return live
