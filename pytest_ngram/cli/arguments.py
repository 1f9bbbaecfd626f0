"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # the type takes its parameter in stubs only
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = argparse._SubParsersAction


def named(text: str) -> str:
    """Refuse an empty word: what an unset variable of a script leaves would mean the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; write one, or leave the argument out")
    return text


def path(text: str) -> Path:
    """Return a path that is not empty."""
    return Path(named(text))


def folder(text: str) -> Path:
    """Return a path that is a folder."""
    found = path(text)
    if not found.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder")
    return found


def new_file(text: str) -> Path:
    """Return the path of a file to be written: told now if that cannot be, not after minutes of work."""
    found = path(text)
    if found.is_dir() or not found.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is {'a folder' if found.is_dir() else 'in no folder'}")
    return found


def at_least(low: int) -> Callable[[str], int]:
    """Return what reads a whole number that is not below `low`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if number < low:
            raise argparse.ArgumentTypeError(f"{number} is below {low}")
        return number

    return read


def server(parser: argparse._ActionsContainer) -> None:
    """Add `--llama-server`: which engine is meant."""
    parser.add_argument(
        "--llama-server",
        metavar="BINARY",
        type=named,
        help="the engine (env: PYTEST_NGRAM_LLAMA_SERVER; default: the embedded engine)",
    )


def cache_dir(parser: argparse.ArgumentParser) -> None:
    """Add `--cache-dir`."""
    parser.add_argument(
        "--cache-dir", metavar="DIR", type=named, help="the cache folder (env: PYTEST_NGRAM_CACHE)"
    )
