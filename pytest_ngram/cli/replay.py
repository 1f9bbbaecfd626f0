"""`pytest-ngram replay`: drafters over a saved run, without its model."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.cli.arguments import Commands, at_least, cache_dir, path
from pytest_ngram.errors import OptionError, RecordError

if TYPE_CHECKING:
    from pytest_ngram.drafting.counts import Counts
    from pytest_ngram.drafting.policy import Policy
    from pytest_ngram.replay.run_file import SavedRun
    from pytest_ngram.replay.sweep import Tried


def add(commands: Commands) -> None:
    """Add the command."""
    replay = commands.add_parser(
        "replay",
        help="replay drafters over a saved run, without its model",
        description="Replays n-gram drafters over the token streams of a saved run: what each would have "
        "drafted and had accepted. Without --policy those of the run, as built and as documented. "
        "docs/replay.md explains the drafters.",
    )
    replay.add_argument("run_file", metavar="RUN", type=path, help="a saved JSON, or a journal of .ngram/")
    what = replay.add_mutually_exclusive_group()
    what.add_argument(
        "--check",
        action="store_true",
        help="replay each server with its own config, and compare step by step; exit code 1 if any differs",
    )
    what.add_argument(
        "--policy",
        metavar="TEXT",
        action="append",
        help="NAME[:NUMBER=VALUE,…][@documented], a stack with +; may be repeated",
    )
    replay.add_argument(
        "--sweep", metavar="GRID", help="numbers to try in the one --policy: size_n=3..12,size_m=4,8,16"
    )
    replay.add_argument("--table", metavar="FILE", type=path, help="the static table of ngram-cache")
    replay.add_argument(
        "--cost",
        metavar="FILE",
        type=path,
        help='what `pytest-ngram curve --out` wrote, or {"1": ms, "4": ms, …} (default: fitted to the run)',
    )
    replay.add_argument("--prompts", action="store_true", help="tell each prompt too")
    replay.add_argument("--json", metavar="FILE", type=path, help="write all rows as JSON")
    replay.add_argument("--csv", metavar="FILE", type=path, help="write all rows as CSV")
    replay.add_argument(
        "--jobs", metavar="N", type=at_least(1), help="processes of a sweep (default: all cores)"
    )
    cache_dir(replay)
    replay.set_defaults(run=_replay)


def _replay(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.options.settings import cache_folder
    from pytest_ngram.replay.kernels import keep_kernels

    # numba is told where it keeps machine code before anything imports it
    kernels = keep_kernels(cache_folder(arguments.cache_dir))

    from pytest_ngram.cli import replay_check, replay_told
    from pytest_ngram.replay.run_file import read_run

    replay_told.check_outputs(arguments)
    run = read_run(arguments.run_file)
    replay_told.compiling(kernels)
    if arguments.check:
        yield from replay_check.lines(run, arguments)
    else:
        yield from _policies(run, arguments)


def _policies(run: SavedRun, arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.cli import replay_told
    from pytest_ngram.replay import results
    from pytest_ngram.replay.choose import choose
    from pytest_ngram.replay.costs import Costs
    from pytest_ngram.replay.streams import streams
    from pytest_ngram.replay.sweep import run_with_luck, sweep
    from pytest_ngram.replay.tables import load_counts

    static = load_counts(arguments.table) if arguments.table is not None else None
    settings = _settings(arguments) if arguments.sweep else []
    tried = [] if settings else _wanted(run, arguments, static)
    all_streams = streams(run.servers)
    if not all_streams:
        raise RecordError(
            "the file has no request with its token ids",
            checked=[str(run.path), f"servers: {len(run.servers)}"],
            fix="name a run whose requests were answered, and whose token ids were not taken out",
        )
    costs = Costs.of(run, all_streams, arguments.cost)
    yield from replay_told.notes(all_streams, costs)
    if settings:
        shown = replay_told.Progress()
        found = sweep(settings, all_streams, static, jobs=arguments.jobs, on_done=shown.show)
        rows = results.rows(found, costs.estimate)
        choices = choose(found, all_streams, costs.by_stream)
        for each in all_streams:
            yield from replay_told.told(each, [choice for choice in choices if choice.stream == each.name])
    else:
        rows = results.rows(
            [run_with_luck(each, stream) for stream in all_streams for each in tried], costs.predict
        )
        yield from results.lines(rows, per_prompt=arguments.prompts)
        choices = []
    yield from replay_told.write(arguments, rows, choices)


def _wanted(run: SavedRun, arguments: argparse.Namespace, static: Counts | None) -> list[Tried]:
    """The policies that are named with the table that is; else those of the run, each with its own."""
    from pytest_ngram.drafting.policy import parse
    from pytest_ngram.replay.sweep import Tried

    name = arguments.table.name if arguments.table is not None else None
    if arguments.policy:
        return [Tried(policy, static, name) for policy in map(parse, arguments.policy)]
    tried = [each for own in _own(run, arguments) for each in own]
    if not tried:
        raise OptionError(
            "there is nothing to replay: the run has no config of n-gram types alone",
            checked=[str(run.path)],
            fix="name a policy, as in --policy prompt-lookup:n=8",
        )
    return tried


def _own(run: SavedRun, arguments: argparse.Namespace) -> Iterator[tuple[Tried, Tried]]:
    """Each policy of the run as built and as documented."""
    from pytest_ngram.replay.check import Tables
    from pytest_ngram.replay.recorded import table_paths
    from pytest_ngram.replay.streams import own_policies
    from pytest_ngram.replay.sweep import Tried

    tables = Tables(arguments.table)
    for policy, served in own_policies(run.servers):
        engine = served.record.engine
        path = table_paths(engine)[0] if engine is not None else None
        static = tables.of(served)[0]
        name = Path(path).name if path is not None else None
        yield Tried(policy, static, name), Tried(policy.as_documented(), static, name)


def _settings(arguments: argparse.Namespace) -> list[Policy]:
    from pytest_ngram.drafting.grid import read_grid, settings
    from pytest_ngram.drafting.policy import parse

    named = arguments.policy or []
    if len(named) != 1:
        raise OptionError(
            "a sweep changes the numbers of one policy",
            checked=[f"{len(named)} times --policy"],
            fix="name it, as in --policy ngram-simple --sweep size_n=3..12",
        )
    return settings(parse(named[0]), read_grid(arguments.sweep))
