"""Prints what the installed embedded engine has, as JSON of `build.Build`.

`python -m pytest_ngram.engine.embedded_build` loads the engine's library, so it runs in a process of its own.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

import msgspec

from pytest_ngram.engine.build import Build, of_flags
from pytest_ngram.engine.embedded import PACKAGE, build_of
from pytest_ngram.engine.flag_table import FLAGS, SPEC_TYPES, Flag
from pytest_ngram.engine.flags import BY_KEY, allowed
from pytest_ngram.engine.help_text import HelpFlag


def build_of_library(library: Any) -> Build:
    """Return what `library` (the `xllamacpp` module) has: the flags whose fields its `CommonParams` knows."""
    version = metadata.version(PACKAGE)
    params = library.CommonParams()
    flags = tuple(_help(flag) for flag in FLAGS if _has(params, flag))
    if _has(params, BY_KEY["load-mode"]):
        flags += (HelpFlag(("--mmap", "--no-mmap", "--mlock"), "", "older spellings of --load-mode"),)
    members = dir(library.common_speculative_type)
    build = build_of(version)
    return Build(
        name=f"{PACKAGE} {version}" + (f" ({build})" if build else ""),
        package=PACKAGE,
        version=version,
        build=build,
        spec_types=tuple(name for name, member in SPEC_TYPES.items() if member in members and name != "none"),
        flags=flags,
        capabilities=of_flags(flags),
    )


def _has(params: Any, flag: Flag) -> bool:
    *path, name = flag.target.split(".")
    holder = params
    for part in path:
        holder = getattr(holder, part, None)
    return hasattr(holder, name) or (flag.older is not None and hasattr(holder, flag.older))


def _help(flag: Flag) -> HelpFlag:
    return HelpFlag((*flag.names, *flag.off_names), "VALUE" if flag.takes_value else "", allowed(flag))


if __name__ == "__main__":
    import xllamacpp

    sys.stdout.write(msgspec.json.encode(build_of_library(xllamacpp)).decode() + "\n")
