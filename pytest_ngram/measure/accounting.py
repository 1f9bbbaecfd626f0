"""What a request drafted and how many decodes it took, made consistent or left unknown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_ngram.engine import decodes
from pytest_ngram.engine.client import Timings
from pytest_ngram.engine.log_reader import RequestLog

_DRAFTED = "llamacpp:spec_decode_num_draft_tokens_total"
_ACCEPTED = "llamacpp:spec_decode_num_accepted_tokens_total"
_VERIFY = "llamacpp:spec_decode_num_drafts_total"
_DECODES = "llamacpp:n_decode_total"
_PER_POSITION = re.compile(r'llamacpp:spec_decode_num_accepted_tokens_per_pos_total\{position="(\d+)"\}')


@dataclass(frozen=True)
class Account:
    """Tokens and steps of one request; None where nothing tells or two sources contradict each other."""

    drafted: int | None
    accepted: int | None
    steps: int | None
    verify_steps: int | None
    replays: int | None
    per_position: tuple[int, ...] | None
    n_decode: int | None


def account(
    timings: Timings,
    delta: Mapping[str, float],
    log: RequestLog | None,
    *,
    speculative: bool,
    prompt_decodes: int,
) -> Account:
    """Join the three sources of one request.

    Args:
        timings: of the answer; its draft counts are there only if something was drafted.
        delta: `/metrics` after the request minus before.
        log: the request's lines, which alone tell replays.
        speculative: whether the config drafts at all; where it does not, nothing drafted is known to be 0.
        prompt_decodes: how many decodes the prompt takes (`engine.decodes.prompt_decodes`).

    Worked example: 60 tokens, 28 accepted, `n_decode_total` rises by 33, the prompt takes 2: both
    60 - 1 - 28 and 33 - 2 say 31 steps; 15 drafts and 15 replays leave 1 plain step.
    """
    n_decode = _count(delta, _DECODES)
    if not speculative:
        found = Account(0, 0, timings.predicted_n - 1, 0, 0, (), n_decode)
    else:
        found = _of_sources(timings, delta, log, n_decode)
    by_count = None if n_decode is None else n_decode - prompt_decodes
    return _consistent(found, timings.predicted_n, by_count)


def _of_sources(
    timings: Timings, delta: Mapping[str, float], log: RequestLog | None, n_decode: int | None
) -> Account:
    drafted = timings.draft_n if timings.draft_n is not None else _count(delta, _DRAFTED)
    accepted = timings.draft_n_accepted if timings.draft_n_accepted is not None else _count(delta, _ACCEPTED)
    verify = _count(delta, _VERIFY)
    return Account(
        drafted=drafted,
        accepted=accepted,
        steps=None if accepted is None else decodes.steps(timings.predicted_n, accepted),
        verify_steps=verify,
        replays=_replays(drafted, accepted, verify, log),
        per_position=_per_position(delta) if verify is not None else None,
        n_decode=n_decode,
    )


def _replays(
    drafted: int | None, accepted: int | None, verify: int | None, log: RequestLog | None
) -> int | None:
    """Only a rejection can lead to a replay, so without one there is none; else the trace tells, if whole."""
    if drafted is not None and drafted == accepted:
        return 0
    if log is None or not log.steps or (verify is not None and log.verify_steps != verify):
        return None
    return log.replays


def _consistent(found: Account, predicted_n: int, by_count: int | None) -> Account:
    """Check steps against the server's own count of decodes, and clip what was accepted past the end.

    Builds before the fix of issue 28049 count tokens as accepted that come after the end token, so that 8
    tokens can have 8 accepted and -1 steps. Then the decodes are right: the last step delivered accepted
    tokens only, and each step before gave one token of its own, so accepted = predicted_n - steps.
    """
    if found.accepted is None or found.steps is None:
        return found
    needed = (found.verify_steps or 0) + (found.replays or 0)
    if found.steps < needed:
        if by_count is None or not needed <= by_count <= predicted_n:
            return replace(found, accepted=None, steps=None, per_position=None)
        return replace(found, accepted=predicted_n - by_count, steps=by_count, per_position=None)
    if by_count is not None and by_count != found.steps:
        return replace(found, steps=None)
    return found


def _per_position(delta: Mapping[str, float]) -> tuple[int, ...]:
    by_position = {int(m[1]): int(n) for name, n in delta.items() if (m := _PER_POSITION.fullmatch(name))}
    counts = [by_position.get(i, 0) for i in range(max(by_position, default=-1) + 1)]
    while counts and counts[-1] == 0:  # positions that only earlier requests reached
        counts.pop()
    return tuple(counts)


def _count(delta: Mapping[str, float], name: str) -> int | None:
    return int(delta[name]) if name in delta else None
