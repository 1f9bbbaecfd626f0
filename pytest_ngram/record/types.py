"""The record of one cell, field by field. These names are API: they stand in saved JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_ngram.record.host import Disturbance, Entry, Host, Memory
from pytest_ngram.record.telemetry import Telemetry

SCHEMA = 1
# The prompt set of prompts that were taken out of a table's corpus: in no summary and no verdict.
ECHO = "echo"

Status = Literal["ok", "crash", "hang", "oom", "refused", "inert", "error"]
Pass = Literal["first", "last"]


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cell this is: model × config × prompt × temperature × block × pass.

    `block` counts from 1. `position` is the place of the cell's server start in its block, from 0.
    `pass_` is `first` or `last` for `none`, which opens and closes each block, and `first` elsewhere.
    """

    model: str
    config: str
    prompt: str
    prompt_set: str
    temperature: float
    block: int
    pass_: Pass = msgspec.field(name="pass")
    position: int


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was read from the model file. `nextn` counts MTP layers; `n_expert` is null on dense models.

    `recurrent_layers` counts layers with a recurrent state, which cannot be rolled back after a rejection. It
    is absent from records written before it was kept.
    """

    name: str
    sha256: str
    arch: str
    size_bytes: int
    vocab_sha256: str
    n_layer: int
    n_expert: int | None
    nextn: int
    recurrent_layers: int | None = None


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which engine answered. `build` is what it says of itself; `argv` is llama-server's own command line."""

    kind: str
    package: str | None
    version: str | None
    build: str | None
    label: str | None
    binary_sha256: str | None
    argv: tuple[str, ...]
    spec_types: tuple[str, ...]
    capabilities: dict[str, bool]


class TypeDrafts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one type of a config did in a request.

    `calls` is how often it was asked for a draft: a type of a stack is asked only where those before it in
    llama.cpp's own order gave none. `drafts` is how often it gave one; `drafted` and `accepted` count tokens.
    """

    calls: int
    drafts: int
    drafted: int
    accepted: int | None


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. Times are what the server reports, in milliseconds; `wall_s` is the client's own clock.

    `tokens` is the packed list of generated ids (`record.packing`). `drafted` and `accepted` count tokens.
    `steps` counts decodes of the target after the prompt (plain + verify + replay), `verify_steps` those
    with a draft. `n_decode` is the server's own count of decodes, the prompt's included. `by_type` goes
    by the names of `--spec-type`: the types' `drafted` add up to the round's, their `drafts` to
    `verify_steps`. It is null where no log tells, and absent from records written before it was known, as
    `telemetry` is. `n_predict` is how many tokens were asked for; absent from older records too.
    """

    status: Status
    seed: int
    tokens: str | None
    text_sha256: str | None
    prompt_n: int | None
    prompt_ms: float | None
    predicted_n: int | None
    predicted_ms: float | None
    wall_s: float | None
    drafted: int | None
    accepted: int | None
    steps: int | None
    verify_steps: int | None
    replays: int | None
    accepted_per_pos: tuple[int, ...] | None
    n_decode: int | None
    stop: str | None
    by_type: dict[str, TypeDrafts] | None = None
    n_predict: int | None = None
    telemetry: Telemetry | None = None


class CorpusPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a message stands: its file's name, its session, its number there (`seq`), and its line from 1."""

    corpus: str
    session: str | None
    number: int | str | None
    line: int


class Leakage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a prompt's own words is in the corpus of the table, in tokens of the model.

    `run` is the longest run of tokens that stands in one message, and `at` the first message that has it.
    `share` is of the prompt's 8-grams, `of_one_message` the largest share in a single message. `exact` counts
    the messages equal to a turn of the prompt, `near` the others with 0.8 of its 8-grams or more. All but
    `run` and `at` are null for a prompt of fewer than 8 tokens.
    """

    run: int | None
    share: float | None
    of_one_message: float | None
    exact: int | None
    near: int | None
    at: CorpusPlace | None


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The static lookup table that the engine loaded with `-lcs`.

    `leakage` is of the cell's prompt; null for a ready file, whose corpus nobody knows, for a prompt that was
    taken out of the corpus on purpose, and in records written before it was looked at.
    """

    sha256: str
    keys: int
    pairs: int
    bytes: int
    leakage: Leakage | None = None


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which server answered: the how-many-th start of the run, and how many measured requests it had before.

    What a stateful type drafts depends on the requests before, so `-k` changes it; this tells how many.
    """

    serial: int
    answered: int


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the cell ended. `log_tail` is empty where no log helps.

    `error` is a fault of a test or of this program, `crash` one of the engine. `inert`: the cell was
    measured, but a type of its config drafted nothing in the whole run. `reason` is null where `status` is
    `ok`, unless that was expected of its config (`abstains` of the matrix): then it says so.
    """

    status: Status
    reason: str | None = None
    log_tail: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that is known of one cell. What is unknown is null, never 0.

    `draft_model` is the second model that `-md` named; null for configs that draft without one.
    `disturbance` is null where no request was measured, and absent from records before it was looked for.
    """

    schema: int = SCHEMA
    cell: Cell
    model: Model | None
    engine: Engine | None
    server: Server | None
    rounds: tuple[Round, ...]
    memory: Memory | None
    host: Host | None
    table: Table | None
    draft_model: Model | None = None
    disturbance: Disturbance | None = None
    outcome: Outcome


class WarmUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request that a server was warmed up with: what drafts from earlier requests has seen it too.

    `prompt` and `tokens` are packed ids (`record.packing`); `n_predict` is how many tokens were asked for.
    """

    prompt: str
    tokens: str
    n_predict: int
    stop: str | None


class ServerStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One start of an engine, numbered from 1 through the run and what it resumes.

    `load_s` is from the start of the process until it was ready, in seconds. `entry` is the machine before
    that; absent from records that were written before it was looked at. So is `warmup`,
    the request that it was warmed up with.
    """

    serial: int
    model: str
    config: str
    temperature: float
    block: int
    pass_: Pass = msgspec.field(name="pass")
    load_s: float
    warmup_s: float
    warmup: WarmUp | None = None
    entry: Entry | None = None


class Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ids that a prompt became on one model; `tokens` is packed (`record.packing`).

    `kind` groups prompts of a set in reports; absent from records that were written before it was kept.
    """

    model: str
    prompt: str
    prompt_set: str
    tokens: str
    kind: str | None = None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all cells of a session share. Seconds are of the harness's own clock.

    `measured_cells` is below `planned_cells` where the session was interrupted; it counts the
    `resumed_cells`, which were taken from a journal.
    """

    version: str
    profile: str
    matrix_sha256: str
    seed: int
    order: tuple[str, ...]
    starts: tuple[ServerStart, ...]
    wall_s: float
    planned_cells: int
    measured_cells: int
    resumed_from: str | None
    resumed_cells: int


class RunFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The top-level `ngram` object of a saved JSON."""

    schema: int = SCHEMA
    run: Run
    prompts: tuple[Prompt, ...]
    failed_cells: tuple[Record, ...]
