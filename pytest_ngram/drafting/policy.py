"""What drafts: a type of llama.cpp with its numbers, the prompt-lookup policy, or a stack of these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from pytest_ngram.errors import OptionError

Variant = Literal["built", "documented"]

# Each type's numbers with llama.cpp's defaults, in the priority of llama.cpp's stacks
# (common_speculative_init); prompt-lookup, which llama.cpp does not have, comes last.
DEFAULTS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "ngram-simple": MappingProxyType({"size_n": 12, "size_m": 48, "min_hits": 1}),
        "ngram-map-k": MappingProxyType({"size_n": 12, "size_m": 48, "min_hits": 1}),
        "ngram-map-k4v": MappingProxyType({"size_n": 12, "size_m": 48, "min_hits": 1}),
        "ngram-mod": MappingProxyType({"n_match": 24, "n_min": 48, "n_max": 64}),
        "ngram-cache": MappingProxyType({"n_draft": 8}),
        "prompt-lookup": MappingProxyType({"n": 8, "min": 3, "max": 12}),
    }
)
PRIORITY = tuple(DEFAULTS)
_FORM = re.compile(r"(?P<name>[a-z0-9-]+)(?::(?P<numbers>[^@]*))?(?:@(?P<variant>[a-z]+))?")


@dataclass(frozen=True)
class Drafter:
    """One drafter.

    Args:
        name: llama.cpp's name of the type, or `prompt-lookup`.
        numbers: by name, all of them.
        variant: `built` with its faults, or `documented` with these mended.
    """

    name: str
    numbers: tuple[tuple[str, int], ...]
    variant: Variant = "built"

    def number(self, name: str) -> int:
        """Return one number."""
        return dict(self.numbers)[name]

    @property
    def widest(self) -> int:
        """How many tokens a draft may have."""
        of = {"prompt-lookup": "n", "ngram-mod": "n_max", "ngram-cache": "n_draft"}
        return self.number(of.get(self.name, "size_m"))

    def __str__(self) -> str:
        """Return the text that `parse` reads, with all numbers."""
        numbers = ",".join(f"{name}={value}" for name, value in self.numbers)
        return f"{self.name}:{numbers}" + ("" if self.variant == "built" else f"@{self.variant}")


@dataclass(frozen=True)
class Policy:
    """A stack of drafters in the order in which they are asked: the first that drafts has the step."""

    drafters: tuple[Drafter, ...]

    @property
    def widest(self) -> int:
        """How many tokens a draft may have."""
        return max((drafter.widest for drafter in self.drafters), default=0)

    def as_documented(self) -> Policy:
        """Return it with the faults of its types mended."""
        return Policy(tuple(replace(drafter, variant="documented") for drafter in self.drafters))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return "+".join(map(str, self.drafters)) or "none"


def drafter(name: str, numbers: Mapping[str, int] | None = None, variant: Variant = "built") -> Drafter:
    """Return a drafter; numbers that are not given have llama.cpp's defaults.

    Raises:
        OptionError: no such drafter, number or value.
    """
    if name not in DEFAULTS:
        raise _wrong(f"no drafter is called {name!r}", f"known: {', '.join(DEFAULTS)}")
    known = dict(DEFAULTS[name])
    for key, value in (numbers or {}).items():
        if key not in known:
            raise _wrong(f"{name} has no number {key!r}", f"it has {', '.join(known)}")
        low = 0 if key in ("n_min", "n_max") else 1
        if not low <= value <= 1024:
            raise _wrong(
                f"{name}: {key}={value} is not within {low} to 1024", "llama.cpp has the same limits"
            )
        known[key] = value
    if name == "prompt-lookup" and known["max"] < known["min"]:
        raise _wrong(
            f"{name}: max={known['max']} is below min={known['min']}", "a match has min to max tokens"
        )
    return Drafter(name, tuple(known.items()), variant)


def stack(drafters: Sequence[Drafter]) -> Policy:
    """Return a stack in llama.cpp's own priority, whatever order the drafters come in.

    Raises:
        OptionError: one type is named twice; llama.cpp has one of each.
    """
    names = [each.name for each in drafters]
    if len(set(names)) < len(names):
        raise _wrong("a type stands twice in a stack", ", ".join(names))
    return Policy(tuple(sorted(drafters, key=lambda each: PRIORITY.index(each.name))))


def parse(text: str) -> Policy:
    """Read `ngram-simple:size_n=3,size_m=8+ngram-cache@documented`.

    Raises:
        OptionError: it is not of this form, or names what there is not.
    """
    return stack([_drafter(part) for part in text.split("+")])


def _drafter(text: str) -> Drafter:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise _wrong(
            f"a policy cannot be read: {text!r}", "the form is NAME[:NUMBER=VALUE,…][@documented][+…]"
        )
    numbers: dict[str, int] = {}
    for pair in filter(None, (found["numbers"] or "").split(",")):
        key, _, value = pair.partition("=")
        if not re.fullmatch(r"\d{1,9}", value):
            raise _wrong(f"a policy cannot be read: {pair!r} of {text!r}", "the form is NUMBER=VALUE")
        numbers[key.strip()] = int(value)
    variant = found["variant"] or "built"
    if variant not in ("built", "documented"):
        raise _wrong(f"no drafter is {variant!r}", "known: built, documented")
    return drafter(found["name"], numbers, "built" if variant == "built" else "documented")


def _wrong(cause: str, checked: str) -> OptionError:
    return OptionError(cause, checked=[checked], fix="docs/replay.md lists the drafters and their numbers")
