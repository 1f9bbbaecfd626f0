"""Records to JSON and back. A record read back equals the one that was written."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pytest_ngram.errors import RecordError
from pytest_ngram.record.types import SCHEMA, Record, RunFile

T = TypeVar("T", Record, RunFile)


def to_builtins(record: Record | RunFile) -> dict[str, Any]:
    """Return plain dicts, lists and scalars, as they stand in the JSON."""
    built: dict[str, Any] = msgspec.to_builtins(record)
    return built


def to_json(record: Record | RunFile) -> bytes:
    """Return one line of UTF-8 JSON without a line end."""
    return msgspec.json.encode(record)


def from_builtins(data: object) -> Record:
    """Read a record out of `extra_info["ngram"]`. Raises `RecordError` with the path of what is wrong."""
    return _convert(data, Record)


def run_from_builtins(data: object) -> RunFile:
    """Read the top-level `ngram` object of a saved JSON. Raises `RecordError`."""
    return _convert(data, RunFile)


def from_json(line: bytes | str) -> Record:
    """Read one line of a journal. Raises `RecordError`."""
    try:
        data = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise RecordError(
            "a record is not JSON",
            checked=[str(error)],
            fix="the line was cut or edited; measure its cell again",
        ) from error
    return _convert(data, Record)


def _convert(data: object, kind: type[T]) -> T:
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise RecordError(
            f"a record of schema {schema!r} cannot be read by this version",
            checked=[f"this version reads schema {SCHEMA}"],
            fix="read it with the version of pytest-ngram that wrote it",
        )
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise RecordError(
            "a record does not have the fields of its schema",
            checked=[str(error)],
            fix="the file was edited, or written by another version; measure its cell again",
        ) from error
