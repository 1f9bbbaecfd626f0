"""The record and the run: types, JSON both ways, packing of token ids. Pure."""

from pytest_ngram.record.codec import from_builtins, from_json, run_from_builtins, to_builtins, to_json
from pytest_ngram.record.packing import pack_tokens, unpack_tokens
from pytest_ngram.record.types import (
    SCHEMA,
    Cell,
    Engine,
    Host,
    Memory,
    Model,
    Outcome,
    Pass,
    Prompt,
    Record,
    Round,
    Run,
    RunFile,
    ServerStart,
    Status,
    Table,
)

__all__ = [
    "SCHEMA",
    "Cell",
    "Engine",
    "Host",
    "Memory",
    "Model",
    "Outcome",
    "Pass",
    "Prompt",
    "Record",
    "Round",
    "Run",
    "RunFile",
    "ServerStart",
    "Status",
    "Table",
    "from_builtins",
    "from_json",
    "pack_tokens",
    "run_from_builtins",
    "to_builtins",
    "to_json",
    "unpack_tokens",
]
