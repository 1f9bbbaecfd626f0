"""`pytest-ngram report`: its part of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pytest_ngram.cli.arguments import Commands, path
from pytest_ngram.errors import NgramError

_USAGE = 2


def add(commands: Commands) -> None:
    """Declare the command."""
    report = commands.add_parser(
        "report",
        help="tell what a saved run says, or what changed since another one, and why",
        description="Without --baseline: the tables and the verdict of a saved run. With it: what differs "
        "between two runs, what that changed for each config, and which part of a token's cost it is.",
        epilog="exit code: 0 the bounds are kept (or there are none), 1 one is not, 2 the command or a file "
        "cannot be used, 3 it cannot be told: the noise covers a bound, under 3 blocks, not comparable, or "
        "a figure is not known",
    )
    report.add_argument(
        "new",
        metavar="RUN.json",
        type=path,
        help="a JSON that pytest bench saved, or a journal; or a YAML of single numbers, one for each config",
    )
    report.add_argument("--baseline", metavar="OLD.json", type=path, help="compare with this run")
    report.add_argument(
        "--fail-on",
        metavar="BOUNDS",
        help="exit with 1 if a figure of any config changed by more, such as "
        "tg:-5%%,acceptance:-0.05,rss:+10%%,pp:-10%%; also coverage, gain (tg ÷ none) and tokens_per_step",
    )
    report.add_argument("--json", metavar="FILE", type=path, help="write the comparison as JSON")
    report.add_argument(
        "--html", metavar="FILE.html", type=path, help="write the report of RUN.json as a page"
    )
    report.add_argument("--md", metavar="FILE.md", type=path, help="the same for a pull request")
    report.add_argument(
        "--curve", metavar="FILE", type=path, help="forecast with what pytest-ngram curve --out wrote"
    )
    report.add_argument(
        "--replay", metavar="FILE", type=path, help="forecast what pytest-ngram replay --json has tried"
    )
    report.add_argument(
        "--adopt",
        metavar="LIMITS",
        default="",
        help="what a config has to gain, and may cost (default: tg:+5%%,pp:-15%%,rss:+25%%,rss:+256MiB)",
    )
    report.add_argument(
        "--gates",
        metavar="GATES.json",
        type=path,
        help="judge with what pytest gates --gates-report wrote on the same build: no config that "
        "failed there is adopted",
    )
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the lines; exits with what the bounds say. What cannot be used is no regression: 2."""
    from pytest_ngram.options import adopt
    from pytest_ngram.reports import Asked, lines_of
    from pytest_ngram.verdict.bounds import parse

    try:
        bounds = parse(arguments.fail_on) if arguments.fail_on is not None else ()
        named = {kind: getattr(arguments, kind) for kind in ("html", "md")}
        pages = {kind: path for kind, path in named.items() if path is not None}
        asked = Asked(
            run=arguments.new,
            baseline=arguments.baseline,
            bounds=bounds,
            json=arguments.json,
            pages=pages,
            curve=arguments.curve,
            replay=arguments.replay,
            adopt=adopt.parse(arguments.adopt, "--adopt"),
            gates=arguments.gates,
        )
        for line in lines_of(asked):
            if isinstance(line, int):
                raise SystemExit(line)
            yield line
    except (ArithmeticError, ValueError) as error:
        # a traceback would exit with 1, which says that a bound is not kept
        print(f"a number in a file is beyond what can be computed with: {error}", file=sys.stderr)
        raise SystemExit(_USAGE) from error
    except NgramError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(_USAGE) from error
