"""Which flags an engine takes: the embedded engine's table, a binary's own `--help`, or any. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

from pytest_ngram.engine import flags
from pytest_ngram.engine.build import Build, not_offered, spelled
from pytest_ngram.engine.flags import Parsed, Value
from pytest_ngram.engine.help_text import HelpFlag
from pytest_ngram.errors import EngineError

_KEY_OF = {name: flag.key for flag in flags.BY_KEY.values() for name in (*flag.names, *flag.off_names)}
_NUMBER = re.compile(r"-\d+(\.\d+)?")

# Flags of llama-server that the run itself decides, and what to do instead.
_OF_THE_RUN: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("-s", "--seed"), "seeds go with each request; the run sets them"),
        **dict.fromkeys(("--temp", "--temperature"), "list temperatures in the matrix"),
        **dict.fromkeys(("-hf", "-hfr", "--hf-repo", "-mu", "--model-url"), "models are files here: use -m"),
        "--log-file": "the log is already written to a file of the run",
        "--log-disable": "the log is evidence; lower it with -lv",
        "--spec-default": "name the types, so that the record says what ran",
        **dict.fromkeys(("-h", "--help", "--usage", "--version", "--list-devices"), "it ends the server"),
        **dict.fromkeys(("-cl", "--cache-list", "--completion-bash"), "it ends the server"),
    }
)


class Vocabulary(Protocol):
    """The flags of one engine."""

    def group(self, argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the words of each flag by its key, as `flags.group`. Raises `EngineError` (`refused`)."""
        ...

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Return the values that `flags` can read. Raises `EngineError` (`refused`)."""
        ...

    def offered(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return those of our own defaults that the engine knows."""
        ...


class EmbeddedFlags:
    """The embedded engine's own table: every flag and value is checked."""

    def group(self, argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return `flags.group(argv)`."""
        return flags.group(argv)

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Return `flags.parse(argv)`."""
        return flags.parse(argv)

    def offered(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return all of them."""
        return tuple(argv)


class BinaryFlags:
    """The flags that a binary lists in its `--help`; any of them may be given.

    That a flag exists and has as many values as it takes is checked here. What a value may be is for the
    binary to say, except for the speculative types. A build without a list takes anything.
    """

    def __init__(self, build: Build) -> None:
        self._build = build

    def group(self, argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the words of each flag by its key.

        The key is that of `flags` where both know the flag, else the first long name without dashes.

        Raises:
            EngineError: `refused`: not a flag of this build, one that the run decides, a value missing, or
                a flag given twice that is not a list.
        """
        if not self._build.flags:
            return _group_any(argv)
        flags.refuse_secrets(argv)
        refusal = not_offered(self._build, _types(argv), argv)
        if refusal is not None:
            raise refusal
        grouped: dict[str, tuple[str, ...]] = {}
        for word, flag, values in self._build.words(argv):
            assert flag is not None  # noqa: S101 - `not_offered` has looked
            _refuse_of_the_run(word)
            if len(values) < flag.n_values:
                raise _refuse(f"{word} lacks its value", flag.text, f"write {word} {flag.hint}")
            key = key_of(flag)
            if key in grouped and not _may_repeat(flag):
                raise _refuse(f"{word} is given twice", " ".join(argv), "give it once")
            grouped[key] = (*grouped.get(key, ()), word, *values)
        return grouped

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Return the values of the flags that `flags` knows too; the others stand in `argv` alone."""
        return _parse_known(argv, self.group(argv))

    def offered(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return those flags that the build lists, with their values. Builds differ in what they can do."""
        if not self._build.flags:
            return tuple(argv)
        known: list[str] = []
        keep = False
        for word in argv:
            name = word.startswith("-") and _NUMBER.fullmatch(word) is None
            keep = self._build.flag(word) is not None if name else keep
            known += [word] if keep else []
        return tuple(known)


class AnyFlags:
    """For a server that someone else started: what its flags are is not ours to check."""

    def group(self, argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the words of each flag; a word after a flag is its value unless it looks like a flag."""
        return _group_any(argv)

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Return the values that can be read."""
        return _parse_known(argv, _group_any(argv))

    def offered(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return all of them."""
        return tuple(argv)


def key_of(flag: HelpFlag) -> str:
    """Return the key of a flag: as `flags` has it, else the first long name without its dashes."""
    known = next((_KEY_OF[name] for name in flag.names if name in _KEY_OF), None)
    long = next((name for name in flag.names if name.startswith("--")), flag.names[0])
    return known or long.lstrip("-")


def _may_repeat(flag: HelpFlag) -> bool:
    return "..." in flag.hint or "--spec-type" in flag.names


def _types(argv: Sequence[str]) -> list[str]:
    pairs = itertools.pairwise(argv)
    return [name for word, value in pairs if spelled(word) == "--spec-type" for name in value.split(",")]


def _group_any(argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
    flags.refuse_secrets(argv)
    grouped: dict[str, tuple[str, ...]] = {}
    key = ""
    for word in argv:
        if word.startswith("-") and _NUMBER.fullmatch(word) is None:
            _refuse_of_the_run(word)
            name = spelled(word)
            key = "load-mode" if name in flags.LOAD_MODE_SWITCHES else _KEY_OF.get(name, name.lstrip("-"))
        elif not key:
            raise _refuse(f"{word!r} is not a flag", " ".join(argv), "take it out")
        grouped[key] = (*grouped.get(key, ()), word)
    return grouped


def _parse_known(argv: Sequence[str], grouped: Mapping[str, tuple[str, ...]]) -> Parsed:
    values: dict[str, Value] = {}
    for words in grouped.values():
        # a value of a newer build that the table does not know is the binary's to judge
        with suppress(EngineError):
            values.update(flags.parse(words).values)
    return Parsed(tuple(argv), MappingProxyType(values))


def _refuse_of_the_run(word: str) -> None:
    name = word.partition("=")[0]
    fix = _OF_THE_RUN.get(spelled(name))
    if fix is not None:
        raise _refuse(f"{name} has no place on this command line", "it is decided by the run", fix)


def _refuse(cause: str, checked: str, fix: str) -> EngineError:
    return EngineError(cause, outcome="refused", checked=[checked], fix=fix)
