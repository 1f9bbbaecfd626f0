"""What `pytest-ngram replay` tells around its table: costs, choices, files, and how far a sweep is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_ngram.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_ngram.drafting.tally import Tally
    from pytest_ngram.replay.choose import Choice
    from pytest_ngram.replay.costs import Costs
    from pytest_ngram.replay.results import Row
    from pytest_ngram.replay.sweep import Stream

_STEPS = 20  # lines of progress where a line cannot be rewritten


def check_outputs(arguments: argparse.Namespace) -> None:
    """Make sure, before anything is computed, that the files can be written. Raises `OptionError`."""
    from pytest_ngram.files import may_be_replaced, same_file

    wanted = [each for each in (arguments.json, arguments.csv) if each is not None]
    inputs = [each for each in (arguments.run_file, arguments.table, arguments.cost) if each is not None]
    for number, output in enumerate(wanted):
        try:
            taken = [each for each in (*inputs, *wanted[:number]) if same_file(each, output)]
            if output.is_dir():
                why = "it is a folder"
            elif taken:
                why = "it is read, or written twice"
            elif not output.parent.is_dir():
                why = "its folder is not there"
            else:
                why = "" if may_be_replaced(output) else "it is there, and no regular file"
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            raise OptionError(
                f"{output.name or output} cannot be written: {why}",
                checked=[str(output)],
                fix="name another file",
            )


def compiling(kernels: Path) -> None:
    """Say on standard error that what follows takes a while, where machine code is not kept yet."""
    from pytest_ngram.drafting.compiled import COMPILED

    if COMPILED and not kernels.exists():
        sys.stderr.write("compiling the drafters, once for this version: half a minute or more\n")
        sys.stderr.flush()


def notes(streams: Sequence[Stream], costs: Costs) -> Iterator[str]:
    """Tell what each stream is, what a decode costs, and what is not known of it."""
    from pytest_ngram.drafting.compiled import COMPILED

    for stream in streams:
        size = f"{len(stream.requests)} requests, {stream.generated} tokens"
        yield f"{stream.name}: {size}; {costs.told(stream.name)}"
        if stream.warmup is None:
            yield f"{stream.name}: its warm-up is not recorded; types that remember it may draft otherwise"
        if stream.left_out:
            yield f"{stream.name}: {stream.left_out} requests have no token ids in the file, and are left out"
    if not COMPILED:
        yield "numba is not installed: the same results, slowly (pip install 'pytest-ngram[replay]')"
    yield ""


def told(stream: Stream, choices: Sequence[Choice]) -> Iterator[str]:
    """Tell the choice of a sweep on one stream, or why there is none."""
    from pytest_ngram.replay.results import interval

    if not choices:
        yield f"{stream.name}: nothing is chosen: one prompt has no other half to report on"
    for choice in choices:
        here, there = choice.here, choice.there
        yield f"{choice.stream}: best of {choice.settings} settings by {choice.by}"
        yield f"  {choice.policy}"
        yield f"  on the {len(choice.chosen_on)} prompts it was chosen on: {_short(there)}"
        if not there.drafted:
            yield "  no setting gains anything there: this one drafted nothing"
        speed = f", tg {interval(choice.tg)}" if choice.tg is not None else ""
        yield f"  on the {len(choice.held_out)} held-out prompts: {_short(here)}{speed}"
        yield f"  {choice.place - 1} of {choice.settings} settings would have been better on these"


def _short(tally: Tally) -> str:
    shares = [
        f"{name} {'—' if value is None else f'{value:.2f}'}"
        for name, value in (
            ("acceptance", tally.acceptance),
            ("coverage", tally.coverage),
            ("tokens per step", tally.tokens_per_step),
        )
    ]
    return f"{tally.accepted} of {tally.drafted} accepted, {', '.join(shares)}"


def write(arguments: argparse.Namespace, rows: Sequence[Row], choices: Sequence[Choice]) -> Iterator[str]:
    """Write the files that were asked for. Raises `OptionError`."""
    from pytest_ngram.files import write_whole
    from pytest_ngram.replay import results as tables

    best = [
        {
            "stream": each.stream,
            "policy": str(each.policy),
            "by": each.by,
            "place": each.place,
            "chosen_on": list(each.chosen_on),
            "held_out": list(each.held_out),
        }
        for each in choices
    ]
    for path, data in (
        (arguments.json, tables.to_json(rows, {"run": str(arguments.run_file), "best": best})),
        (arguments.csv, tables.to_csv(rows)),
    ):
        if path is None:
            continue
        try:
            write_whole(path, data)
        except OSError as error:
            raise OptionError(
                f"{path.name} cannot be written: {error.strerror or error}",
                checked=[str(path), "what was there is as it was"],
                fix="make room or get the right to write there, or name another file",
            ) from error
        yield f"wrote {path}"


class Progress:
    """How much of a sweep is done: one line that is rewritten on a terminal, else one for each twentieth."""

    def __init__(self) -> None:
        self._rewrites = sys.stderr.isatty()
        self._told = 0

    def show(self, done: int, total: int) -> None:
        """Say it, if it is time."""
        if self._rewrites:
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{done} of {total} replayed{end}")
            sys.stderr.flush()
        elif done * _STEPS // total > self._told:
            self._told = done * _STEPS // total
            sys.stderr.write(f"{done} of {total} replayed\n")
