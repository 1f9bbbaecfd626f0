"""`pytest-ngram curve`: its part of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_ngram.cli.arguments import Commands, at_least, cache_dir, new_file, path, server


def add(commands: Commands) -> None:
    """Declare the command."""
    curve = commands.add_parser(
        "curve",
        help="measure what a decode of w tokens costs on this host, and the acceptance a draft needs",
        description="Measures T(w)/T(1), what a decode of w tokens costs, of a plain step, and says from "
        "which acceptance on a draft of n tokens pays. Starts servers of its own, "
        "whose requests are in no result.",
    )
    curve.add_argument("model", metavar="MODEL", help="a model of the matrix, with its flags there")
    curve.add_argument(
        "--matrix",
        metavar="FILE",
        type=path,
        default=Path("bench/matrix.yaml"),
        help="where the model is described (default: bench/matrix.yaml)",
    )
    server(curve)
    curve.add_argument(
        "--from",
        dest="runs",
        metavar="RUN.json",
        type=path,
        action="append",
        default=[],
        help="take what a saved run has seen; only the widths that it lacks are measured",
    )
    curve.add_argument("--only-from", action="store_true", help="measure nothing")
    curve.add_argument(
        "--blocks", metavar="N", type=at_least(1), default=3, help="rounds through all servers (default: 3)"
    )
    curve.add_argument(
        "--repeats",
        metavar="N",
        type=at_least(1),
        default=4,
        help="requests of each kind in one (default: 4)",
    )
    curve.add_argument("--out", metavar="FILE", type=new_file, help="write the curve as JSON")
    cache_dir(curve)
    curve.set_defaults(run=_curve)


def _curve(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.curves import Asked, curve_lines_of

    return curve_lines_of(
        Asked(
            model=arguments.model,
            matrix=arguments.matrix,
            llama_server=arguments.llama_server,
            runs=tuple(arguments.runs),
            measures=not arguments.only_from,
            blocks=arguments.blocks,
            repeats=arguments.repeats,
            out=arguments.out,
            cache=Path(arguments.cache_dir) if arguments.cache_dir else None,
        ),
        tell=lambda text: print(text, file=sys.stderr),
    )
