"""`pytest-ngram doctor`: its part of the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_ngram.cli.arguments import Commands, cache_dir, folder, named, path


def add(commands: Commands) -> None:
    """Declare the command."""
    doctor = commands.add_parser(
        "doctor",
        help="look at engine, models and host before a long run; takes seconds",
        description="Looks at engine, models, memory, cores, what else runs, clock and disks before a long "
        "run, and says of each ok, warn or fail, and what to do. It starts the engine once on a tiny model, "
        "measures nothing, and reads of a model its header only.",
        epilog="exit code: 0 where nothing fails, also where something warns (the run works, its numbers may "
        "be slower or noisier); 1 where something fails (some of the run cannot be measured, or not to "
        "any purpose)",
    )
    doctor.add_argument(
        "folder",
        metavar="DIR",
        type=path,
        nargs="?",
        help="of the cells (default: as `pytest bench` finds them)",
    )
    which = doctor.add_mutually_exclusive_group()
    which.add_argument("--matrix", metavar="FILE", type=path, help="as --ngram-matrix of pytest")
    which.add_argument(
        "--model",
        metavar="FILE",
        type=path,
        help="look at this GGUF file, as `init` would take it, not at a matrix",
    )
    doctor.add_argument("--profile", metavar="NAME", help="as --ngram-profile of pytest")
    doctor.add_argument("--models", metavar="ID[,ID]", help="as --ngram-models of pytest")
    doctor.add_argument("--llama-server", metavar="BINARY|URL", type=named, help="as of pytest")
    doctor.add_argument("--llama-server-flags", metavar="FLAGS", help="as of pytest")
    cache_dir(doctor)
    doctor.add_argument(
        "--root",
        metavar="DIR",
        type=folder,
        default=Path("/"),
        help="where /proc/pressure, /sys/devices and /sys/fs/cgroup are read, such as /host in a container",
    )
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the lines as they are known; exits with 1 where one fails."""
    from pytest_ngram.doctor import Asked, checkup
    from pytest_ngram.doctor.line import rendered, summary

    asked = Asked(
        folder=arguments.folder,
        matrix=arguments.matrix,
        model=arguments.model,
        profile=arguments.profile,
        models=arguments.models,
        llama_server=arguments.llama_server,
        told=arguments.llama_server_flags,
        cache=Path(arguments.cache_dir) if arguments.cache_dir else None,
        root=arguments.root,
    )
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    found = []
    for line in checkup(asked):
        found.append(line)
        yield rendered(line, colour=colour)
    yield summary(found)
    if any(line.status == "fail" for line in found):
        sys.stdout.flush()
        raise SystemExit(1)
