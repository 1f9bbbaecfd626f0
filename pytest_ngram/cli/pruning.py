"""The options that say what a table keeps of its counts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pytest_ngram.cli.arguments import at_least

if TYPE_CHECKING:
    from pytest_ngram.table.build import TableParams

_NAMES = ("top_k", "min_count", "min_share", "min_total", "min_top_share", "count_cap")


def add(group: argparse._ArgumentGroup, *, top_k: str = "4", min_count: str = "2") -> None:
    """Add the options; the defaults of two of them are told as given here."""
    whole, share = ("N", at_least(1)), ("SHARE", float)
    for name, (metavar, kind), text in (
        ("--top-k", whole, f"continuations kept of a 2-gram (default: {top_k})"),
        ("--min-count", whole, f"leave out those seen less often (default: {min_count})"),
        ("--min-share", share, "and those that are less of all that followed the 2-gram (default: 0)"),
        ("--min-total", whole, "leave out 2-grams seen less often (default: 1)"),
        ("--min-top-share", share, "and those whose best continuation is less of it (default: 0)"),
        ("--count-cap", whole, "scale 2-grams with larger counts down to it (default: what cannot overflow)"),
    ):
        group.add_argument(name, metavar=metavar, type=kind, help=text)


def params(arguments: argparse.Namespace, **defaults: int) -> TableParams:
    """Return what was asked for; what was not is as in `defaults`, else as in `TableParams`.

    Raises:
        TableError: a value makes no sense.
    """
    from pytest_ngram.table.build import TableParams

    given = {name: value for name in _NAMES if (value := vars(arguments)[name]) is not None}
    return TableParams(**{**defaults, **given})
