"""`pytest-ngram`: prepares a repository, looks at the host, reads runs, makes tables, measures a curve."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from pytest_ngram import __version__
from pytest_ngram.cli import corpus, curve, doctor, init, look, replay, report, table
from pytest_ngram.errors import NgramError

_INTERRUPTED = 130  # what a shell says of a program that SIGINT ended
_UNWRITABLE = 2
# A name in a file of somebody else's may hold what steers a terminal, or turns the text around: it is shown.
_STEERING = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SHOWN = {code: ascii(chr(code))[1:-1] for code in _STEERING if chr(code) not in "\n\t"}
_READER_GONE = 141  # and of one that SIGPIPE ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns 0, 1 (the error is on standard error), 2 (standard output cannot be written), 130 (Ctrl-C) or
    141 (a broken pipe).
    """
    arguments = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without dashes and dots still gets the numbers
    with _noting_ctrl_c() as pressed:
        try:
            _print(arguments.run(arguments))
        except _UnwritableError as error:
            # the interpreter writes what is left as it ends, and may not complain either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error.__cause__, BrokenPipeError):  # who reads has enough, such as `head`
                return _READER_GONE
            print(f"standard output cannot be written: {error}", file=sys.stderr)
            return _UNWRITABLE
        except NgramError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, ImportError) as error:
            if isinstance(error, ImportError) and not pressed:
                raise
            print("stopped by Ctrl-C", file=sys.stderr)
            return _INTERRUPTED
    return 0


class _UnwritableError(Exception):
    """Standard output took no more; the cause says why."""


def _print(lines: Iterator[str]) -> None:
    """Print lines as they come. An exit code that they end with counts only if all were written."""

    def write(text: str, *, now: bool = False) -> None:
        try:
            print(text, end="", flush=now)
        except OSError as error:
            raise _UnwritableError(error.strerror or str(error)) from error

    try:
        for line in lines:
            write(f"{line}\n".translate(_SHOWN))
    finally:
        write("", now=True)


@contextlib.contextmanager
def _noting_ctrl_c() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C puts its signal into before it raises `KeyboardInterrupt`.

    A module written in C that is interrupted while it is imported drops that, and raises an `ImportError`
    that does not tell where it is from. A handler that somebody else has set, or none (SIGINT is ignored),
    stays.
    """
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def parser() -> argparse.ArgumentParser:
    """Return the command line: `pytest-ngram COMMAND …`."""
    top = argparse.ArgumentParser(
        prog="pytest-ngram",
        description="Prepares a repository, tells what saved runs say, makes lookup tables, and looks at "
        "them and at models. Cells are measured with `pytest bench`.",
    )
    top.add_argument("--version", action="version", version=f"pytest-ngram {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for group in (init, doctor, report, corpus, table, curve, look, replay):
        group.add(commands)
    return top
