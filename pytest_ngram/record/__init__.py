"""The record and the run: types, JSON both ways, packing of token ids. Pure."""

from pytest_ngram.record.codec import from_builtins, from_json, run_from_builtins, to_builtins, to_json
from pytest_ngram.record.host import Disturbance, Entry, Host, Memory, Pressure
from pytest_ngram.record.packing import pack_tokens, unpack_tokens
from pytest_ngram.record.telemetry import Cost, StepTime, Telemetry
from pytest_ngram.record.types import (
    SCHEMA,
    Cell,
    Engine,
    Model,
    Outcome,
    Pass,
    Prompt,
    Record,
    Round,
    Run,
    RunFile,
    Server,
    ServerStart,
    Status,
    Table,
    TypeDrafts,
)

__all__ = [
    "SCHEMA",
    "Cell",
    "Cost",
    "Disturbance",
    "Engine",
    "Entry",
    "Host",
    "Memory",
    "Model",
    "Outcome",
    "Pass",
    "Pressure",
    "Prompt",
    "Record",
    "Round",
    "Run",
    "RunFile",
    "Server",
    "ServerStart",
    "Status",
    "StepTime",
    "Table",
    "Telemetry",
    "TypeDrafts",
    "from_builtins",
    "from_json",
    "pack_tokens",
    "run_from_builtins",
    "to_builtins",
    "to_json",
    "unpack_tokens",
]
