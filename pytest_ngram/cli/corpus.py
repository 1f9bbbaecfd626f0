"""`pytest-ngram corpus`: fetches chats."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

from pytest_ngram.cli.arguments import Commands, at_least, named, path

_UNCHANGED = 3


def add(commands: Commands) -> None:
    """Add the group of commands."""
    corpus = commands.add_parser("corpus", help="fetch a chat corpus from where it is exported")
    parts = corpus.add_subparsers(title="commands", required=True, metavar="COMMAND")
    pull = parts.add_parser(
        "pull",
        help="bring a corpus file up to what a server exports",
        description="Asks the export below URL for its manifest, and for its messages if they are not those "
        "of FILE; decrypts them (age), checks every row, and replaces FILE (mode 0600) and FILE.state.json.",
        epilog="Exit code: 0 updated, 3 unchanged, 1 failed (FILE is as it was; the reason is on standard "
        "error), 2 a wrong command line, 130 stopped by Ctrl-C. The protocol: docs/corpus-pull.md.",
    )
    pull.add_argument("url", metavar="URL", type=named, help="what stands before /export/v1")
    pull.add_argument("-o", "--output", metavar="FILE", type=path, required=True, help="a .jsonl.gz")
    pull.add_argument(
        "--token-file", metavar="FILE", type=path, required=True, help="the bearer token; mode 0600"
    )
    pull.add_argument(
        "--identity", metavar="FILE", type=path, required=True, help="what `age-keygen` wrote; mode 0600"
    )
    _add_limits(pull)
    pull.set_defaults(run=_pull)


def _add_limits(pull: argparse.ArgumentParser) -> None:
    pull.add_argument(
        "--timeout", metavar="S", type=_above_0, default=30.0, help="seconds without a byte (default: 30)"
    )
    pull.add_argument(
        "--max-time", metavar="S", type=_above_0, default=1800.0, help="seconds for all (default: 1800)"
    )
    pull.add_argument(
        "--retries",
        metavar="N",
        type=at_least(0),
        default=4,
        help="more attempts for each request after a 5xx or a broken transfer (default: 4)",
    )
    pull.add_argument(
        "--max-mb",
        metavar="MB",
        type=_above_0,
        default=4000.0,
        help="megabytes, encrypted and again once unpacked (default: 4000)",
    )
    pull.add_argument(
        "--allow-http",
        action="store_true",
        help="send the token in the clear to another machine, where the way there is safe by itself",
    )


def _pull(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.corpus.export_limits import Limits
    from pytest_ngram.corpus.pull import Wanted, pull
    from pytest_ngram.corpus.selection import MB

    limits = Limits(
        silence_s=arguments.timeout,
        total_s=arguments.max_time,
        retries=arguments.retries,
        max_bytes=int(arguments.max_mb * MB),
    )
    wanted = Wanted(
        url=arguments.url,
        output=arguments.output,
        token_file=arguments.token_file,
        identity_file=arguments.identity,
        limits=limits,
        allow_http=arguments.allow_http,
    )
    done = pull(wanted, _tell)
    state = done.state
    what = "updated" if done.updated else f"unchanged since {state.pulled_at}"
    yield f"{wanted.output}: {what}: {state.rows} rows, {state.file_bytes} bytes, content {state.content_id}"
    if not done.updated:
        raise SystemExit(_UNCHANGED)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _above_0(text: str) -> float:
    """Return a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
