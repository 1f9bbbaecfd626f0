"""How a long build is shown: a bar on a terminal, a line every 10 seconds elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, TextIO

from tqdm import tqdm

from pytest_ngram.corpus.selection import MB
from pytest_ngram.matrix.duration import said
from pytest_ngram.table.build.tokens import Progress

EVERY_S = 10.0


class Shown:
    """Shows `Progress` while texts are tokenized: how much, how fast, how long yet. `newest` is the last one.

    Args:
        stream: where to; standard error where None.
        clock: seconds.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._begin_s = self._last_s = clock()
        self._bar: tqdm[NoReturn] | None = None
        self.newest: Progress | None = None

    def __enter__(self) -> Shown:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        tqdm.write(text, file=self._stream)
        self._stream.flush()

    def __call__(self, done: Progress) -> None:
        """Show how far it is."""
        self.newest = done
        if self._stream.isatty():
            self._draw(done)
            return
        now_s = self._clock()
        if now_s - self._last_s >= EVERY_S:
            self._last_s = now_s
            self.say(line(done, now_s - self._begin_s))

    def _draw(self, done: Progress) -> None:
        if self._bar is None:
            self._bar = self._new_bar(done.of_bytes)
        self._bar.set_postfix_str(f"{done.tokens} tokens", refresh=False)
        self._bar.update(done.size_bytes - self._bar.n)

    def _new_bar(self, of_bytes: int) -> tqdm[NoReturn]:
        size = shutil.get_terminal_size()
        return tqdm(
            total=of_bytes,
            desc="tokenizing",
            unit="B",
            unit_scale=True,
            file=self._stream,
            leave=False,
            # of itself tqdm draws nothing on a terminal that does not tell its size
            ncols=size.columns,
            nrows=size.lines,
        )


def line(done: Progress, elapsed_s: float) -> str:
    """Return `Progress` as a line, such as `4.0 of 18.0 MB, 2 MB/s, 7 s left`."""
    rate = done.size_bytes / max(elapsed_s, 1e-9)
    size = f"{done.size_bytes / MB:.1f} of {done.of_bytes / MB:.1f} MB"
    text = f"{size}, {done.messages} messages, {done.tokens} tokens"
    if not done.size_bytes:
        return text
    return f"{text}, {rate / MB:.2f} MB/s, {said((done.of_bytes - done.size_bytes) / rate)} left"
