"""`pytest-ngram replay`: drafters over a saved run, without its model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ngram.errors import OptionError, RecordError

if TYPE_CHECKING:
    from pytest_ngram.drafting.cost import Curve
    from pytest_ngram.drafting.counts import Counts
    from pytest_ngram.drafting.policy import Policy
    from pytest_ngram.replay.check import Compared
    from pytest_ngram.replay.choose import Choice, Costs
    from pytest_ngram.replay.run_file import SavedRun
    from pytest_ngram.replay.sweep import Result, Stream, Tried

_DIFFERENCES = 20
_STEPS = 20  # lines of progress where a line cannot be rewritten


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    replay = commands.add_parser(
        "replay",
        help="replay drafters over a saved run, without its model",
        description="Replays n-gram drafters over the token streams of a saved run: what each would have "
        "drafted and had accepted. Without --policy those of the run, as built and as documented. "
        "docs/replay.md explains the drafters.",
    )
    replay.add_argument("run_file", metavar="RUN", type=Path, help="a saved JSON, or a journal of .ngram/")
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
    replay.add_argument("--table", metavar="FILE", type=Path, help="the static table of ngram-cache")
    replay.add_argument(
        "--cost",
        metavar="FILE",
        type=Path,
        help='JSON {"1": ms, "4": ms, …}: what so many tokens take',
    )
    replay.add_argument("--prompts", action="store_true", help="tell each prompt too")
    replay.add_argument("--json", metavar="FILE", type=Path, help="write all rows as JSON")
    replay.add_argument("--csv", metavar="FILE", type=Path, help="write all rows as CSV")
    replay.add_argument("--jobs", metavar="N", type=_jobs, help="processes of a sweep (default: all cores)")
    replay.set_defaults(run=_replay)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


def _replay(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.options.settings import cache_folder
    from pytest_ngram.replay.kernels import keep_kernels

    keep_kernels(cache_folder())

    from pytest_ngram.replay.run_file import read_run

    run = read_run(arguments.run_file)
    if arguments.check:
        yield from _check(run, arguments)
    else:
        yield from _policies(run, arguments)


def _check(run: SavedRun, arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.replay.check import Tables, check

    if arguments.sweep or arguments.json or arguments.csv or arguments.cost:
        raise OptionError(
            "--check compares, and sweeps or writes nothing",
            checked=["--sweep, --json, --csv, --cost"],
            fix="leave these out, or leave --check out",
        )
    compared = check(run.servers, Tables(arguments.table))
    yield from _skipped(compared)
    known = [each for each in compared if each.skipped is None]
    different = [each for each in known if each.difference is not None]
    for each in different[:_DIFFERENCES]:
        why = f" ({each.ties} ties)" if each.ties else ""
        why += f" ({each.undefined} reads past the text)" if each.undefined else ""
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


def _policies(run: SavedRun, arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.drafting.cost import estimate, fit, predict
    from pytest_ngram.replay import results as tables
    from pytest_ngram.replay.streams import streams, timed
    from pytest_ngram.replay.sweep import run_with_luck, sweep
    from pytest_ngram.replay.tables import load_counts

    static = load_counts(arguments.table) if arguments.table is not None else None
    tried = _wanted(run, arguments, static)
    all_streams = streams(run.servers)
    if not all_streams:
        raise RecordError(
            "the file has no request with its token ids",
            checked=[str(run.path)],
            fix="name a run that has them",
        )
    given = _given_curve(arguments.cost)
    costs: dict[str, Any] = {}
    for stream in all_streams:
        measured = [] if given is not None else timed(run.servers, stream.model)
        costs[stream.name] = (given if given is not None else fit(measured), measured)
    yield from _notes(all_streams, costs)
    if arguments.sweep:
        progress = _Progress()
        policies = _settings(tried, arguments)
        results = sweep(policies, all_streams, static, jobs=arguments.jobs, on_done=progress.show)
    else:
        results = [run_with_luck(each, stream) for stream in all_streams for each in tried]

    def speed(result: Result) -> Any:
        return predict(result.of(), *costs[result.stream])

    def point(result: Result) -> Any:
        return estimate(result.of(), costs[result.stream][0])

    rows = tables.rows(results, point if arguments.sweep else speed)
    if not arguments.sweep:
        yield from tables.lines(rows, per_prompt=arguments.prompts)
    choices = _choices(results, all_streams, costs) if arguments.sweep else []
    for choice in choices:
        yield from _told(choice)
    yield from _write(arguments, rows, choices)


def _wanted(run: SavedRun, arguments: argparse.Namespace, static: Counts | None) -> list[Tried]:
    """The policies that are named with the table that is; else those of the run, each with its own."""
    from pytest_ngram.drafting.policy import parse
    from pytest_ngram.replay.sweep import Tried

    name = arguments.table.name if arguments.table is not None else None
    if arguments.policy:
        return [Tried(policy, static, name) for policy in map(parse, arguments.policy)]
    tried = [each for own in _own(run, arguments) for each in own]
    if not tried and not arguments.sweep:
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


def _settings(tried: Sequence[Tried], arguments: argparse.Namespace) -> list[Policy]:
    from pytest_ngram.drafting.grid import read_grid, settings

    if len(arguments.policy or ()) != 1:
        raise OptionError(
            "a sweep changes the numbers of one policy",
            checked=[f"{len(arguments.policy or ())} times --policy"],
            fix="name it, as in --policy ngram-simple --sweep size_n=3..12",
        )
    return settings(tried[0].policy, read_grid(arguments.sweep))


def _given_curve(path: Path | None) -> Curve | None:
    import json

    from pytest_ngram.drafting.cost import from_points

    if path is None:
        return None
    try:
        data = json.loads(path.read_bytes())
        points = {int(tokens): float(ms) / 1000 for tokens, ms in data.items()}
        if not points or min(points) < 1 or min(points.values()) <= 0:
            raise ValueError("a decode has a token or more, and takes time")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise OptionError(
            f"the costs cannot be read: {error}",
            checked=[str(path)],
            fix='write {"1": 9.2, "2": 14.1, "4": 21.0}: tokens of a decode, and milliseconds',
        ) from error
    return from_points(points)


def _notes(streams: Sequence[Stream], costs: Costs) -> Iterator[str]:
    from pytest_ngram.drafting.compiled import COMPILED

    for stream in streams:
        curve, measured = costs[stream.name]
        cost = "no cost curve: nothing tells what wider decodes take"
        if curve is not None:
            a, b = curve.of(1) * 1000, curve.of(2) * 1000
            of = f" (of {len(measured)} requests)" if measured else ""
            cost = f"a decode takes {a:.2f} ms, each token more {b - a:.2f} ms{of}"
        yield f"{stream.name}: {len(stream.requests)} requests, {stream.generated} tokens; {cost}"
        if stream.warmup is None:
            yield f"{stream.name}: its warm-up is not recorded; types that remember it may draft otherwise"
    if not COMPILED:
        yield "numba is not installed: the same results, slowly (pip install 'pytest-ngram[replay]')"
    yield ""


def _choices(results: Sequence[Result], streams: Sequence[Stream], costs: Costs) -> list[Choice]:
    from pytest_ngram.replay.choose import choose

    return choose(results, streams, costs)


def _told(choice: Choice) -> Iterator[str]:
    from pytest_ngram.replay.results import interval

    here, there = choice.here, choice.there
    yield f"{choice.stream}: best of {choice.settings} settings by {choice.by}"
    yield f"  {choice.policy}"
    yield f"  on the {len(choice.chosen_on)} prompts it was chosen on: {_short(there)}"
    speed = f", tg {interval(choice.tg)}" if choice.tg is not None else ""
    yield f"  on the {len(choice.held_out)} held-out prompts: {_short(here)}{speed}"
    yield f"  {choice.place - 1} settings would have been better there"


def _short(tally: Any) -> str:
    shares = [
        f"{name} {'—' if value is None else f'{value:.2f}'}"
        for name, value in (
            ("acceptance", tally.acceptance),
            ("coverage", tally.coverage),
            ("tokens per step", tally.tokens_per_step),
        )
    ]
    return f"{tally.accepted} of {tally.drafted} accepted, {', '.join(shares)}"


def _write(arguments: argparse.Namespace, rows: Any, choices: Sequence[Choice]) -> Iterator[str]:
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
                f"{path.name} cannot be written: {error.strerror}",
                checked=[str(path)],
                fix="name another file",
            ) from error
        yield f"wrote {path}"


class _Progress:
    """How much of a sweep is done: one line that is rewritten on a terminal, else one for each twentieth."""

    def __init__(self) -> None:
        self._rewrites = sys.stderr.isatty()
        self._told = 0

    def show(self, done: int, total: int) -> None:
        """Say it, if it is time."""
        if self._rewrites:
            end = "\n" if done == total else ""
            print(f"\r{done} of {total} replayed", end=end, file=sys.stderr, flush=True)
        elif done * _STEPS // total > self._told:
            self._told = done * _STEPS // total
            print(f"{done} of {total} replayed", file=sys.stderr)
