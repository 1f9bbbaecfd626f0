"""The policy that a recorded server ran, from its command line."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ngram.drafting.policy import DEFAULTS, Policy, drafter, stack
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.record import Engine

_FLAGS = {"size_n": "size-n", "size_m": "size-m", "min_hits": "min-hits"}
_MOD_FLAGS = {"n_match": "n-match", "n_min": "n-min", "n_max": "n-max"}


def policy_of(engine: Engine) -> Policy | None:
    """Return what a server drafted with; None where a model drafts too, or its command line is not known."""
    types, numbers = _told(engine.argv)
    if not engine.argv or any(name not in DEFAULTS for name in types):
        return None
    return stack([drafter(name, numbers.get(name, {})) for name in dict.fromkeys(types)])


def table_paths(engine: Engine) -> tuple[str | None, str | None]:
    """Return the paths of `-lcs` and `-lcd`."""
    parsed = AnyFlags().parse(engine.argv)
    static = parsed.values.get("lookup-cache-static")
    dynamic = parsed.values.get("lookup-cache-dynamic")
    return (static if isinstance(static, str) else None), (dynamic if isinstance(dynamic, str) else None)


def slots(engine: Engine) -> int:
    """Return how many slots its command line asks for; 1 where it does not say."""
    parallel = AnyFlags().parse(engine.argv).values.get("parallel")
    return parallel if isinstance(parallel, int) else 1


def _told(argv: Sequence[str]) -> tuple[tuple[str, ...], dict[str, dict[str, int]]]:
    parsed = AnyFlags().parse(argv)
    numbers: dict[str, dict[str, int]] = {}
    for name, known in DEFAULTS.items():
        flags = _MOD_FLAGS if name == "ngram-mod" else _FLAGS
        for number, flag in flags.items():
            value = parsed.values.get(f"spec-{name}-{flag}")
            if number in known and isinstance(value, int):
                numbers.setdefault(name, {})[number] = value
    return parsed.spec_types, numbers
