"""One request and what it cost: the round of a record.

Counts come from `/metrics`, read before and after the request, while nothing else uses the server. Replays
stand in the log only: one trace line for each verify step whose tail was rejected deeper than the model's
state can be rolled back.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ngram.engine import decodes
from pytest_ngram.engine.client import Client, CompletionRequest, CompletionResult
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.measure.trace import LogCursor
from pytest_ngram.record import Round, pack_tokens

_DRAFTED = "llamacpp:spec_decode_num_draft_tokens_total"
_ACCEPTED = "llamacpp:spec_decode_num_accepted_tokens_total"
_VERIFY = "llamacpp:spec_decode_num_drafts_total"
_DECODES = "llamacpp:n_decode_total"
_PER_POSITION = re.compile(r'llamacpp:spec_decode_num_accepted_tokens_per_pos_total\{position="(\d+)"\}')


@dataclass(frozen=True)
class Drafting:
    """What a request drafted, in tokens and steps; None where neither metrics nor log tell."""

    drafted: int | None
    accepted: int | None
    verify_steps: int | None
    per_position: tuple[int, ...] | None


def measure(
    engine: RunningEngine,
    client: Client,
    request: CompletionRequest,
    *,
    speculative: bool,
    hang_after_s: float,
) -> Round:
    """Send one request and return its round.

    Args:
        engine: the server that answers, watched for progress.
        client: a client of it.
        request: what to ask.
        speculative: whether the config drafts at all; where it does not, nothing drafted is known to be 0.
        hang_after_s: no new token for this long is a hang.

    Raises:
        EngineError: the request was refused, the server died, or it made no progress.
    """
    log = LogCursor(engine.log_path)
    before = client.metrics()
    begin_s = time.monotonic()
    result = guarded(engine, lambda: client.completion(request), no_progress_s=hang_after_s)
    wall_s = time.monotonic() - begin_s
    delta = _delta(before, client.metrics())
    drafting = _drafting(result, delta) if speculative else Drafting(0, 0, 0, ())
    replays = _replays(drafting, log)
    n_decode = delta.get(_DECODES)
    return Round(
        status="ok",
        seed=request.seed,
        tokens=pack_tokens(result.tokens),
        text_sha256=hashlib.sha256(result.content.encode()).hexdigest(),
        prompt_n=result.timings.prompt_n,
        prompt_ms=result.timings.prompt_ms,
        predicted_n=result.timings.predicted_n,
        predicted_ms=result.timings.predicted_ms,
        wall_s=wall_s,
        drafted=drafting.drafted,
        accepted=drafting.accepted,
        steps=_steps(result, drafting),
        verify_steps=drafting.verify_steps,
        replays=replays,
        accepted_per_pos=drafting.per_position,
        n_decode=None if n_decode is None else int(n_decode),
        stop=result.stop_type,
    )


def _delta(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """A label that was not there before counts from 0; a metric that the build lacks stays away."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _drafting(result: CompletionResult, delta: Mapping[str, float]) -> Drafting:
    """From the timings where they are given, which is only if something was drafted, and from the metrics."""
    timings = result.timings
    drafted = timings.draft_n if timings.draft_n is not None else _count(delta, _DRAFTED)
    accepted = timings.draft_n_accepted if timings.draft_n_accepted is not None else _count(delta, _ACCEPTED)
    by_position = {int(m[1]): int(n) for name, n in delta.items() if (m := _PER_POSITION.fullmatch(name))}
    positions = [by_position.get(i, 0) for i in range(max(by_position, default=-1) + 1)]
    while positions and positions[-1] == 0:  # positions that only earlier requests reached
        positions.pop()
    known = _VERIFY in delta
    return Drafting(drafted, accepted, _count(delta, _VERIFY), tuple(positions) if known else None)


def _count(delta: Mapping[str, float], name: str) -> int | None:
    return int(delta[name]) if name in delta else None


def _steps(result: CompletionResult, drafting: Drafting) -> int | None:
    if drafting.accepted is None:
        return None
    return decodes.steps(result.timings.predicted_n, drafting.accepted)


def _replays(drafting: Drafting, log: LogCursor) -> int | None:
    """Only a rejection can lead to a replay, so without one there is none; else the log tells."""
    if drafting.drafted is None or drafting.accepted is None:
        return None
    if drafting.drafted == drafting.accepted:
        return 0
    return log.replays()
