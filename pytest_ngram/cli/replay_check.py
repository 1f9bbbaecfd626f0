"""`pytest-ngram replay --check`: are the drafters what the servers did."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_ngram.errors import OptionError, RecordError

if TYPE_CHECKING:
    from pytest_ngram.replay.check import Compared
    from pytest_ngram.replay.run_file import SavedRun

_DIFFERENCES = 20


def lines(run: SavedRun, arguments: argparse.Namespace) -> Iterator[str]:
    """Return what was compared. Raises `RecordError` where something differs, or nothing could be."""
    from pytest_ngram.replay.check import Tables, check

    others = ("sweep", "json", "csv", "cost", "prompts", "jobs")
    if any(getattr(arguments, name) for name in others):
        raise OptionError(
            "--check compares, and sweeps or writes nothing",
            checked=[", ".join(f"--{name}" for name in others if getattr(arguments, name))],
            fix="leave these out, or leave --check out",
        )
    compared = check(run.servers, Tables(arguments.table))
    yield from _skipped(compared)
    known = [each for each in compared if each.skipped is None]
    different = [each for each in known if each.difference is not None]
    for each in different[:_DIFFERENCES]:
        why = f" (ties: {each.ties})" if each.ties else ""
        why += f" (reads past the text: {each.undefined})" if each.undefined else ""
        yield f"{each.id}: {each.difference}{why}"
    if len(different) > _DIFFERENCES:
        yield f"… and {len(different) - _DIFFERENCES} more"
    by_step = sum(each.by_step for each in known)
    ties = sum(each.ties for each in known)
    yield f"compared step by step: {by_step} of {len(known)}; ties: {ties}"
    yield f"{len(known) - len(different)} of {len(known)} requests equal"
    if different or not known:
        raise RecordError(
            "the drafters did not do what the servers did" if known else "no request could be compared",
            checked=[str(run.path), *_builds(run)],
            fix="compare that build's source with docs/replay.md; ties go otherwise without GCC's library"
            if known
            else "measure configs of n-gram types with this version, and name their JSON",
        )


def _skipped(compared: Sequence[Compared]) -> list[str]:
    counts: dict[str, int] = {}
    for each in compared:
        if each.skipped is not None:
            counts[each.skipped] = counts.get(each.skipped, 0) + 1
    return [f"not compared: {n} requests: {why}" for why, n in counts.items()]


def _builds(run: SavedRun) -> list[str]:
    engines = [served.record.engine for served in run.servers]
    found = {
        f"{each.package or each.kind} {each.version or each.build or ''}".strip() for each in engines if each
    }
    return [f"builds: {', '.join(sorted(found))}"]
