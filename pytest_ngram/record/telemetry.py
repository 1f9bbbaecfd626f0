"""What the step trace tells of one request, field by field. These names are API: they stand in saved JSON."""

from __future__ import annotations

from typing import Literal

import msgspec


class StepTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long steps of one width took, in ms: n of them, without the drafting, with MTP's catch-up decode.

    `median_ms` and `min_ms` are null where the steps were timed together, as plain steps are.
    """

    n: int
    mean_ms: float
    median_ms: float | None = None
    min_ms: float | None = None


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the generation time went, in ms per generated token (÷ predicted_n − 1); the five add up to it.

    `draft` is the types' own time (the log's `dur`), without the catch-up decode of MTP, which is part of
    `verify`. `rest` is what no step of the log accounts for; it may be below 0. `unexplained` says so where
    it is more than 2 % of the whole. `plain_from` tells how plain steps were told from the verify steps that
    they share a gap with: `alone` (nothing to tell apart, or only the last step), `gaps` (by the lengths of
    the gaps), `unclear` (by the gaps, which fit badly: plain and verify are right in sum only).
    """

    draft_ms: float
    verify_ms: float
    replay_ms: float
    plain_ms: float
    rest_ms: float
    plain_from: Literal["alone", "gaps", "unclear"]
    unexplained: str | None = None


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the step trace tells of one request. Shares are from 0 to 1.

    `coverage` = verify ÷ (plain + verify) steps. `acceptance_per_pos` is, of all verify steps, the share
    that accepted the token at that position. `tokens_per_step` counts all steps (`none` has 1);
    `mean_accepted_length` verify steps only: accepted ÷ verify + 1, llama.cpp's own `mean len`.
    `step_ms_by_width` goes by the tokens that a step verifies: 1 is a plain step, n_max + 1 a full draft.
    `server_share` is the server's time, prompt and generation, of the client's wall. `steps` is the packed
    trace (`record.packing`), four numbers a line: microseconds since the line before (at first since the
    generation began), drafted, accepted, and 1 where a replay follows. `unread` says why there is no trace
    where one was to be.
    """

    coverage: float | None = None
    acceptance_per_pos: tuple[float, ...] | None = None
    tokens_per_step: float | None = None
    mean_accepted_length: float | None = None
    step_ms_by_width: dict[str, StepTime] | None = None
    replay_ms: float | None = None
    cost: Cost | None = None
    server_share: float | None = None
    steps: str | None = None
    unread: str | None = None
