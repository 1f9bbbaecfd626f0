"""Rows as columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return a line for each row, two spaces before each column.

    Args:
        rows: all of the same length, the head first.
        left: how many of the first columns begin at the left; the others end at the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
