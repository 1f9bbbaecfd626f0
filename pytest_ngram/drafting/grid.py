"""Settings to try: `size_n=3..12,size_m=4,8,16` over a policy, and which of two halves a prompt is in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from pytest_ngram.drafting.policy import Policy, drafter, stack
from pytest_ngram.errors import OptionError

_RANGE = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?(?:/(\d{1,9}))?")
MOST = 100_000


def read_grid(text: str) -> dict[str, tuple[int, ...]]:
    """Read `size_n=3..12,size_m=4,8,16`: a number's values are single ones, `low..high`, or `low..high/step`.

    Raises:
        OptionError: it is not of this form.
    """
    grid: dict[str, tuple[int, ...]] = {}
    name = ""
    for part in text.split(","):
        head, is_new, value = part.rpartition("=")
        name = head.strip() if is_new else name
        found = _RANGE.fullmatch(value.strip())
        if not name or found is None:
            raise _wrong(f"a sweep cannot be read: {part!r} of {text!r}", "the form is NUMBER=LOW..HIGH,…")
        low, high = int(found[1]), int(found[2] or found[1])
        values = range(low, high + 1, int(found[3] or 1)) if int(found[3] or 1) else range(0)
        if not values:
            raise _wrong(f"a sweep has no values: {part!r}", "low is above high, or the step is 0")
        if len(values) + len(grid.get(name, ())) > MOST:  # a billion would fill the memory
            raise _wrong(f"{len(values)} values are too many: {part!r}", f"at most {MOST} settings")
        grid[name] = (*grid.get(name, ()), *values)
    return grid


def settings(policy: Policy, grid: dict[str, tuple[int, ...]]) -> list[Policy]:
    """Return the policy with every combination of the grid's values, each in all its drafters that have the
    number.

    `min` above `max` and the like are no settings, and are left out.

    Raises:
        OptionError: no drafter has a number of that name, or there are too many combinations, or none.
    """
    for name in grid:
        if not any(name in dict(each.numbers) for each in policy.drafters):
            raise _wrong(f"no drafter of {policy} has a number {name!r}", "the names stand in docs/replay.md")
    if (combinations := _product(grid)) > MOST:
        raise _wrong(f"{combinations} settings are too many", f"at most {MOST}")
    found = []
    for values in itertools.product(*grid.values()):
        changed = dict(zip(grid, values, strict=True))
        wanted = []
        for each in policy.drafters:
            own = dict(each.numbers)
            numbers = {**own, **{name: value for name, value in changed.items() if name in own}}
            if numbers.get("min", 0) > numbers.get("max", 1 << 30):
                break
            wanted.append(drafter(each.name, numbers, each.variant))
        else:
            found.append(stack(wanted))
    if not found:
        raise _wrong("there is no setting to try", "`min` is above `max` in every combination")
    return list(dict.fromkeys(found))


def halves(prompts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return every other prompt, and the rest: one half to choose on, one to report on."""
    known = list(dict.fromkeys(prompts))
    return tuple(known[::2]), tuple(known[1::2])


def _product(grid: dict[str, tuple[int, ...]]) -> int:
    product = 1
    for values in grid.values():
        product *= len(values)
    return product


def _wrong(cause: str, checked: str) -> OptionError:
    return OptionError(cause, checked=[checked], fix="write it as --sweep size_n=3..12,size_m=4,8,16")
