from __future__ import annotations

from typing import Any

import pytest

from pytest_ngram.engine import flags
from pytest_ngram.engine.command import server_argv
from pytest_ngram.errors import EngineError


def values(**options: Any) -> dict[str, Any]:
    return dict(flags.parse(server_argv("m.gguf", **options)).values)


def test_defaults_of_a_measurement() -> None:
    """One slot, no prompt cache in RAM, no fitting, a stated context, counters, a port of the system's."""
    assert values() == {
        "model": "m.gguf",
        "ctx-size": 4096,
        "parallel": 1,
        "cache-ram": 0,
        "fit": False,
        "verbosity": 4,
        "metrics": True,
        "slots": True,
        "host": ("127.0.0.1",),
        "port": 0,
    }


def test_other_spelling_replaces_a_default() -> None:
    """A default gives way to the same flag in any spelling, and stands once on the line."""
    argv = server_argv("m.gguf", model_flags=["--ctx-size", "8192"], config_flags=["-cram", "64"])
    assert argv.count("--ctx-size") == 1
    assert "-c" not in argv
    assert flags.parse(argv).get("cache-ram", 0) == 64


def test_types_table_and_draft_model() -> None:
    """Types, table and draft model become --spec-type, -lcs and -md."""
    got = values(spec_types=["draft-simple", "ngram-cache"], table_path="t.bin", draft_model="d.gguf")
    assert got["spec-type"] == ("draft-simple", "ngram-cache")
    assert got["lookup-cache-static"] == "t.bin"
    assert got["spec-draft-model"] == "d.gguf"


def test_none_is_no_type() -> None:
    """`none` writes no --spec-type."""
    assert "spec-type" not in values(spec_types=["none"])


@pytest.mark.parametrize(
    ("model_flags", "config_flags", "said"),
    [
        (["-c", "1"], ["--ctx-size", "2"], "disagree about --ctx-size"),
        (["--port", "8080"], [], "--port is set by the run"),
        ([], ["--spec-type", "ngram-mod"], "--spec-type is set by the run"),
        ([], ["--no-slots"], "--no-slots is set by the run"),
        (["-m", "other.gguf"], [], "-m is set by the run"),
        ([], ["--no-such"], "--no-such is not a flag"),
    ],
)
def test_conflicts_are_errors(model_flags: list[str], config_flags: list[str], said: str) -> None:
    """Flags of model and config that disagree, that the run sets itself, or that nobody knows are refused."""
    with pytest.raises(EngineError, match=said):
        server_argv("m.gguf", model_flags=model_flags, config_flags=config_flags)


def test_agreeing_flags_are_no_conflict() -> None:
    """The same value in both places is given once."""
    argv = server_argv("m.gguf", model_flags=["-c", "64"], config_flags=["--ctx-size", "64"])
    assert flags.parse(argv).get("ctx-size", 0) == 64


def test_verbosity_gives_way() -> None:
    """-lv or -v of a config replaces the argument's."""
    assert values(config_flags=["-lv", "1"])["verbosity"] == 1
    assert "verbosity" not in values(config_flags=["-v"])
    assert values(verbosity=3)["verbosity"] == 3
