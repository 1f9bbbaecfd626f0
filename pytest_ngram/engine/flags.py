"""Reads a llama-server command line into typed values. Pure; nothing on the command line is ever ignored."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from pytest_ngram.engine import api_key
from pytest_ngram.engine.flag_table import FALSY, FLAGS, TRUTHY, Flag
from pytest_ngram.errors import EngineError

Value = int | float | bool | str | tuple[str, ...] | tuple[float, ...]
T = TypeVar("T")

_BY_NAME: Mapping[str, Flag] = MappingProxyType(
    {name: flag for flag in FLAGS for name in (*flag.names, *flag.off_names)}
)
BY_KEY: Mapping[str, Flag] = MappingProxyType({flag.key: flag for flag in FLAGS})

# Older spellings of one flag with a value: builds before `--load-mode` had a switch for each mode.
LOAD_MODE_SWITCHES = MappingProxyType({"--mmap": "mmap", "--no-mmap": "none", "--mlock": "mmap+mlock"})

# Flags of llama-server that have no place here, and what to do instead.
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "-s": "seeds go with each request; the run sets them",
        "--seed": "seeds go with each request; the run sets them",
        "--temp": "temperatures go with each request; list them in the matrix",
        "--temperature": "temperatures go with each request; list them in the matrix",
        "--device": "the embedded engine has no field for it; a llama-server binary takes it",
        "-dev": "the embedded engine has no field for it; a llama-server binary takes it",
        "--spec-default": "name the types with --spec-type, so that the record says what ran",
        "--draft": "llama.cpp removed it; use --spec-draft-n-max or --spec-ngram-mod-n-max",
        "--draft-n": "llama.cpp removed it; use --spec-draft-n-max or --spec-ngram-mod-n-max",
        "--draft-max": "llama.cpp removed it; use --spec-draft-n-max or --spec-ngram-mod-n-max",
        "--draft-min": "llama.cpp removed it; use --spec-draft-n-min or --spec-ngram-mod-n-min",
        "--draft-n-min": "llama.cpp removed it; use --spec-draft-n-min or --spec-ngram-mod-n-min",
        "--spec-ngram-size-n": "llama.cpp removed it; use --spec-ngram-<type>-size-n",
        "--spec-ngram-size-m": "llama.cpp removed it; use --spec-ngram-<type>-size-m",
        "--spec-ngram-min-hits": "llama.cpp removed it; use --spec-ngram-<type>-min-hits",
        "-hf": "models are files here; give the path with -m",
        "--hf-repo": "models are files here; give the path with -m",
        "-mu": "models are files here; give the path with -m",
        "--model-url": "models are files here; give the path with -m",
        "--log-file": "the log is already written to a file of the run",
        "--log-disable": "the log is evidence; lower it with -lv",
    }
)


@dataclass(frozen=True)
class Parsed:
    """A command line that the embedded engine understands.

    `values` maps the key of each given flag (its long name without dashes, such as `ubatch-size`) to its
    value: int, float, bool, str, or a tuple for comma lists. Flags that were not given are absent.
    """

    argv: tuple[str, ...]
    values: Mapping[str, Value]

    def get(self, key: str, default: T) -> T:
        """Return the value of `key`, or `default` where it was not given. `KeyError` where no flag has it."""
        if key not in BY_KEY:
            raise KeyError(f"{key!r} is not the key of a flag")
        return self.values.get(key, default)  # type: ignore[return-value]

    @property
    def spec_types(self) -> tuple[str, ...]:
        """The speculative types named, `none` left out; empty without speculation."""
        return tuple(name for name in self.get("spec-type", tuple[str, ...]()) if name != "none")


def parse(argv: Sequence[str]) -> Parsed:
    """Read a llama-server command line (without the program's name).

    Raises:
        EngineError: with outcome `refused`: an unknown flag, a flag given twice, a value that is missing, of
            the wrong kind or outside its limits. `--spec-type` alone may be repeated, as in llama-server.
    """
    values: dict[str, Value] = {}
    for flag, name, text in _pairs(argv):
        value = _value(flag, name, text)
        if flag.kind == "types" and flag.key in values:
            value = (*values[flag.key], *value)  # type: ignore[misc]
        elif name in LOAD_MODE_SWITCHES and {values.get(flag.key), value} == {"none", "mmap+mlock"}:
            value = "mlock"  # what `--no-mmap --mlock` meant to the builds that had them
        elif flag.key in values:
            raise _refuse(
                f"{name} is given twice",
                [f"the command line: {' '.join(argv)}"],
                "give it once; llama-server would keep the last one only",
            )
        values[flag.key] = value
    if "verbose" in values and "verbosity" in values:
        raise _refuse("--verbose and --verbosity are both given", [], "give one of them")
    return Parsed(tuple(argv), MappingProxyType(values))


def group(argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the arguments of each flag by its key, in order: `{"ctx-size": ("-c", "4096")}`.

    Raises:
        EngineError: as `parse`; values are checked too.
    """
    grouped: dict[str, tuple[str, ...]] = {}
    parse(argv)
    for flag, name, text in _pairs(argv):
        words = (name,) if text is None or not flag.takes_value else (name, text)
        if name in LOAD_MODE_SWITCHES:
            words = (name,)
        grouped[flag.key] = grouped.get(flag.key, ()) + words
    return grouped


def refuse_secrets(argv: Sequence[str]) -> None:
    """Refuse a key or token on a command line, in a message that does not show it. Raises `EngineError`."""
    for word in argv:
        if api_key.is_secret(word):
            raise _refuse(
                f"{word.partition('=')[0]} has no place on this command line",
                ["a key would stand in every record"],
                "a server that is started here needs none; the key of a server at a URL is taken from "
                f"{api_key.VARIABLES[0]}, which holds the key itself and no file's name",
            )


def _pairs(argv: Sequence[str]) -> list[tuple[Flag, str, str | None]]:
    refuse_secrets(argv)
    pairs: list[tuple[Flag, str, str | None]] = []
    words = iter(argv)
    for word in words:
        # llama-server itself reads --ctx_size as --ctx-size
        name = word.replace("_", "-") if word.startswith("--") else word
        if name in LOAD_MODE_SWITCHES:
            pairs.append((BY_KEY["load-mode"], name, LOAD_MODE_SWITCHES[name]))
            continue
        flag = _BY_NAME.get(name)
        if flag is None:
            raise _unknown(word)
        text = None
        if flag.takes_value:
            text = next(words, None)
            if text is None:
                raise _refuse(f"{name} lacks its value", [], f"write {name} with {allowed(flag)}")
        pairs.append((flag, name, text))
    return pairs


def allowed(flag: Flag) -> str:
    """Say in a few words which values `flag` takes."""
    limits = (
        ""
        if flag.low is None
        else f" from {flag.low:g}" + ("" if flag.high is None else f" to {flag.high:g}")
    )
    words = {
        "int": f"a whole number{limits}",
        "float": f"a number{limits}",
        "text": "a text",
        "words": "a comma list",
        "floats": f"a comma list of numbers{limits}",
        "onoff": "on or off",
        "choice": "one of",
        "types": "a comma list of",
        "pairs": "a comma list of PATTERN=BUFFER_TYPE",
    }.get(flag.kind, "no value")
    if flag.choices:
        joint = " " if flag.kind in ("choice", "types") else ", or "
        words += joint + ", ".join(flag.choices)
    return words


def _value(flag: Flag, name: str, text: str | None) -> Value:
    if flag.kind == "switch":
        return name not in flag.off_names
    if flag.const is not None:
        return flag.const
    try:
        return _convert(flag, text or "")
    except ValueError:
        near = difflib.get_close_matches(text or "", list(flag.choices), n=3)
        hint = f"write {allowed(flag)}" + (f"; near: {', '.join(near)}" if near else "")
        raise _refuse(f"{name} does not take {text!r}", [f"allowed: {allowed(flag)}"], hint) from None


def _convert(flag: Flag, text: str) -> Value:  # noqa: PLR0911 - one return per kind of value
    if flag.kind == "int":
        return int(flag.choices[text]) if text in flag.choices else int(_number(flag, int(text)))
    if flag.kind == "float":
        return _number(flag, float(text))
    if flag.kind == "floats":
        return tuple(_number(flag, float(part)) for part in text.split(","))
    if flag.kind == "onoff":
        return _on_off(text) == "on"
    if flag.kind == "words":
        return _known([part.strip() for part in text.split(",")], None)
    if flag.kind == "types":
        return _known([part.strip() for part in text.split(",")], flag)
    if flag.kind == "pairs":
        return _pairs_of(text)
    if flag.kind == "choice":
        word = _on_off(text) if {"on", "off"} <= set(flag.choices) and text not in flag.choices else text
        return _known([word], flag)[0]
    if not text:
        raise ValueError(text)
    return text


def _number(flag: Flag, number: float) -> float:
    too_low = flag.low is not None and number < flag.low
    too_high = flag.high is not None and number > flag.high
    if too_low or too_high or number != number:  # noqa: PLR0124 - NaN alone differs from itself
        raise ValueError(number)
    return number


def _pairs_of(text: str) -> tuple[str, ...]:
    pairs = tuple(text.split(","))
    if not all(pattern and word for pattern, _, word in (pair.partition("=") for pair in pairs)):
        raise ValueError(text)
    return pairs


def _on_off(text: str) -> str:
    if text in TRUTHY:
        return "on"
    if text in FALSY:
        return "off"
    if text == "-1":
        return "auto"
    raise ValueError(text)


def _known(words: list[str], flag: Flag | None) -> tuple[str, ...]:
    for word in words:
        if not word or (flag is not None and word not in flag.choices):
            raise ValueError(word)
    return tuple(words)


def _unknown(word: str) -> EngineError:
    if word in _REFUSED:
        return _refuse(f"{word} has no place on this command line", [], _REFUSED[word])
    if "=" in word and word.split("=", 1)[0] in _BY_NAME:
        name, value = word.split("=", 1)
        return _refuse(
            f"{word} joins a flag and its value", [], f"write {name} {value}, as llama-server wants it"
        )
    near = difflib.get_close_matches(word, list(_BY_NAME), n=3, cutoff=0.75)
    if not word.startswith("-"):
        return _refuse(f"{word!r} is not a flag", ["every word of the command line is read"], "take it out")
    return _refuse(
        f"{word} is not a flag that the embedded engine understands",
        [f"{len(_BY_NAME)} spellings of {len(FLAGS)} flags"],
        (f"did you mean {', '.join(near)}? Else " if near else "")
        + "take it out, or use a llama-server binary that has it (--llama-server)",
    )


def _refuse(cause: str, checked: Sequence[str], fix: str) -> EngineError:
    return EngineError(cause, outcome="refused", checked=checked, fix=fix)
