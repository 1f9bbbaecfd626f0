"""Reads what a llama-server binary says of itself: `--help` and `--version`. Pure.

An entry of `--help` begins in the first column with the flag's spellings and a hint at its value; the text
stands from column 40 on, beside it where the names are short, else below:

    -c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                            (env: LLAMA_ARG_CTX_SIZE)
    --spec-draft-p-min, --draft-p-min P     minimum speculative decoding probability (greedy) (default: 0.00)
"""

from __future__ import annotations

import re

import msgspec

_TEXT_COLUMN = 40
_NAME = re.compile(r"\s*(-{1,2}[^\s,]+)(,?)")
_PLACEHOLDER = re.compile(r"<[^<>]*>")
_WORD_LIST = re.compile(r"[a-z0-9][a-z0-9_+-]*(,[a-z0-9][a-z0-9_+-]*)+")
_BUILD = re.compile(r"version: .*?\(build (?P<build>\d+), commit (?P<commit>\S+)\)")
_OLDER_BUILD = re.compile(r"version: (?P<build>\d+) \((?P<commit>\S+)\)")
_BUILT_WITH = re.compile(r"built with (?P<compiler>.+) for (?P<target>.+)")


class HelpFlag(msgspec.Struct, frozen=True):
    """One flag. `hint` is how the value is written, empty for a switch; `text` says what it does."""

    names: tuple[str, ...]
    hint: str
    text: str

    @property
    def n_values(self) -> int:
        """How many arguments belong to it: 0 for a switch, 2 for `START END`."""
        return len(_PLACEHOLDER.sub("X", self.hint).split())

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that the hint allows (`[on|off|auto]`, `{none,linear}`, `none,draft-mtp`), else empty."""
        inner = self.hint.strip("[]{}<>")
        if "|" in inner and " " not in inner:
            return tuple(inner.split("|"))
        return tuple(inner.split(",")) if _WORD_LIST.fullmatch(inner) else ()

    @property
    def removed(self) -> bool:
        """Whether the build knows the flag only to refuse it."""
        return self.text.startswith("the argument has been removed")


class Version(msgspec.Struct, frozen=True):
    """What `--version` says. `build` is `b11434-1a2b3c4`, None where the build does not know its number."""

    build: str | None = None
    compiler: str | None = None
    target: str | None = None


def parse_help(text: str) -> tuple[HelpFlag, ...]:
    """Return the flags in the order of the text; lines outside of an entry are passed over."""
    entries: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("-----"):
            continue
        if line.startswith("-"):
            # names that reach column 37 have their text on the next line
            beside = line[_TEXT_COLUMN - 3 : _TEXT_COLUMN].strip() == ""
            head, rest = (line[:_TEXT_COLUMN], line[_TEXT_COLUMN:]) if beside else (line, "")
            entries.append((head, [rest]))
        elif entries and line.startswith(" "):
            entries[-1][1].append(line)
    return tuple(_flag(head, " ".join(" ".join(lines).split())) for head, lines in entries)


def _flag(head: str, text: str) -> HelpFlag:
    names: list[str] = []
    position = 0
    while (found := _NAME.match(head, position)) is not None:
        names.append(found[1])
        position = found.end()
        if not found[2]:
            break
    return HelpFlag(tuple(names), head[position:].strip(), text)


def parse_version(text: str) -> Version:
    """Read `--version`. A build that says number 0 and an unknown commit has no name of its own."""
    found = _BUILD.search(text) or _OLDER_BUILD.search(text)
    with_ = _BUILT_WITH.search(text)
    return Version(
        build=_build_name(found["build"], found["commit"]) if found else None,
        compiler=with_["compiler"].strip() if with_ else None,
        target=with_["target"].strip() if with_ else None,
    )


def _build_name(number: str, commit: str) -> str | None:
    if commit == "unknown":
        return f"b{number}" if int(number) > 0 else None
    return f"b{number}-{commit}"
