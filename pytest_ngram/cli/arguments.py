"""Arguments that several commands take."""

from __future__ import annotations

import argparse
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
