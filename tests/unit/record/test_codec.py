"""A record read back equals the one written, and token ids survive their packing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.errors import RecordError
from pytest_ngram.record import (
    Cell,
    Outcome,
    Record,
    Round,
    Server,
    from_builtins,
    from_json,
    pack_tokens,
    to_builtins,
    to_json,
    unpack_tokens,
)

CELL = Cell(
    model="m", config="none", prompt="p", prompt_set="s", temperature=0.0, block=1, pass_="last", position=3
)
ROUND = Round(
    status="ok",
    seed=5,
    tokens=pack_tokens([1, 2, 3]),
    text_sha256="ab",
    prompt_n=4,
    prompt_ms=1.5,
    predicted_n=3,
    predicted_ms=2.25,
    wall_s=0.01,
    drafted=None,
    accepted=None,
    steps=2,
    verify_steps=0,
    replays=0,
    accepted_per_pos=(1, 0),
    n_decode=3,
    stop="limit",
)
RECORD = Record(
    cell=CELL,
    model=None,
    engine=None,
    server=Server(serial=3, answered=2),
    rounds=(ROUND,),
    memory=None,
    host=None,
    table=None,
    outcome=Outcome(status="hang", reason="no token for 60 s", log_tail=("a", "b")),
)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_packed_tokens_come_back(ids: list[int]) -> None:
    """Packing and unpacking give the same ids, for any int32."""
    assert unpack_tokens(pack_tokens(ids)) == ids


def test_the_packing_is_the_documented_one() -> None:
    """base64 of zlib of little-endian int32, so that other tools can read it."""
    assert unpack_tokens("eNpjZGBgYAJiZiAGAAA0AAc=") == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "!!", "AAAA", "eNpjZGJmYQUAACgAEA=="])
def test_a_damaged_packing_is_an_error(text: str) -> None:
    """Not base64, not zlib, not whole words: an error, never a shorter list."""
    with pytest.raises(RecordError, match="packed token ids"):
        unpack_tokens(text)


def test_a_record_survives_json() -> None:
    """Written and read back, as a journal line and inside a saved JSON, it is equal."""
    assert from_json(to_json(RECORD)) == RECORD
    assert from_builtins(json.loads(json.dumps(to_builtins(RECORD)))) == RECORD


def test_records_from_before_the_types_were_known_are_read() -> None:
    """A round without `by_type`, as older files have it, is one of which nothing is known."""
    data = to_builtins(RECORD)
    for round_ in data["rounds"]:
        assert round_.pop("by_type") is None
    assert from_builtins(data) == RECORD


def test_names_in_the_json_are_the_documented_ones() -> None:
    """The keys are API: `pass`, not `pass_`; unknown is null, never 0 and never left out."""
    data = json.loads(to_json(RECORD))
    assert data["schema"] == 1
    assert data["cell"]["pass"] == "last"
    assert data["rounds"][0]["drafted"] is None
    assert set(data) == {
        "schema",
        "cell",
        "model",
        "engine",
        "server",
        "rounds",
        "memory",
        "host",
        "table",
        "draft_model",
        "disturbance",
        "outcome",
    }


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"schema": None}, {"extra": 1}, {"rounds": None}, {"outcome": {"status": "fine"}}],
)
def test_another_shape_is_an_error(change: dict[str, object]) -> None:
    """Another schema, an unknown field, a wrong type: an error that says so."""
    with pytest.raises(RecordError, match="to do: "):
        from_builtins({**to_builtins(RECORD), **change})


def test_a_cut_line_is_an_error() -> None:
    """Half a line of JSON is no record."""
    with pytest.raises(RecordError, match="not JSON"):
        from_json(to_json(RECORD)[:-5])


def test_records_can_be_replaced_field_by_field() -> None:
    """Records are frozen; a changed one is a new one."""
    assert msgspec.structs.replace(RECORD, rounds=()) != RECORD
