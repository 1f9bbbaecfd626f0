"""Whether two cells were measured by one and the same engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ngram.engine import compare
from pytest_ngram.record import Engine

_ADDRESS = ("host", "port", "api-prefix")


def differences(then: Engine, now: Engine, *, same_model: bool) -> list[str]:
    """Return what tells two engines apart, by what their records say; empty where nothing does.

    Args:
        then, now: as `RunningEngine.describe` gave them.
        same_model: whether both ran the same model. The flags of two models may differ.

    A server at a URL has no hash. It is told by its build, its address, and the flags that were seen or told,
    but for those of drafting: another config of the model has others, and is measured on the next server.
    """
    if _build(then) != _build(now):
        return [f"then {_name(then)}", f"now {_name(now)}"]
    if now.kind != "url":
        return []
    before, after = compare.setting(then.argv), compare.setting(now.argv)
    keys = sorted(before.keys() | after.keys()) if same_model else _ADDRESS
    return [
        f"then {_flag(before, key)}, now {_flag(after, key)}"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _flag(flags: Mapping[str, str], key: str) -> str:
    return flags.get(key, f"no --{key}")


def _build(engine: Engine) -> tuple[str | None, ...]:
    return engine.kind, engine.version, engine.build, engine.binary_sha256


def _name(engine: Engine) -> str:
    return " ".join(filter(None, (engine.kind, engine.package, engine.version, engine.build)))
