"""A line of the doctor: one thing that was looked at, what was found, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]
_ORDER: tuple[Status, ...] = ("ok", "warn", "fail")
_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}
_STATUS_WIDTH = 4
_WHAT_WIDTH = 12  # the longest is `capabilities`


@dataclass(frozen=True)
class Line:
    """What one look gave.

    Args:
        status: `ok`; `warn` where the run works and its numbers may be slower or noisier than need be, or
            where that cannot be told; `fail` where some of it cannot be measured, or not to any purpose.
        what: what was looked at, twelve letters at most.
        found: what was found there.
        todo: what to do about it, in the imperative; None where all is well.
    """

    status: Status
    what: str
    found: str
    todo: str | None = None


def ok(what: str, found: str) -> Line:
    """Return a line on something that is well."""
    return Line("ok", what, found)


def warn(what: str, found: str, todo: str) -> Line:
    """Return a line on something that makes numbers worse."""
    return Line("warn", what, found, todo)


def fail(what: str, found: str, todo: str) -> Line:
    """Return a line on something that keeps the run from its purpose."""
    return Line("fail", what, found, todo)


def worst(lines: Sequence[Line]) -> Line:
    """Return the first line of the worst status among them."""
    return max(lines, key=lambda line: _ORDER.index(line.status))


def rendered(line: Line, *, colour: bool = False) -> str:
    """Return the line as text, with what to do below it. What is no printable letter becomes `?`."""
    status = line.status.ljust(_STATUS_WIDTH)
    if colour:
        status = f"\033[{_COLOURS[line.status]}m{status}\033[0m"
    text = f"{status}  {line.what.ljust(_WHAT_WIDTH)}  {_printable(line.found)}"
    if line.todo is not None:
        text += f"\n{' ' * (_STATUS_WIDTH + _WHAT_WIDTH + 4)}to do: {_printable(line.todo)}"
    return text


def summary(lines: Sequence[Line]) -> str:
    """Return the last line: how many of each, and what they mean for the run."""
    n_warn, n_fail = (sum(line.status == status for line in lines) for status in ("warn", "fail"))
    counts = f"{len(lines)} checks: {len(lines) - n_warn - n_fail} ok, {n_warn} warn, {n_fail} fail"
    if n_fail:
        return f"{counts}. Mend what fails before you measure"
    if n_warn:
        return f"{counts}. It can be measured; what warns makes numbers slower or noisier"
    return f"{counts}. Ready to measure"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
