"""What a request drafted and how many decodes it took, made consistent or left unknown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from pytest_ngram.engine import decodes
from pytest_ngram.engine.client import Timings
from pytest_ngram.engine.log_reader import RequestLog
from pytest_ngram.record import TypeDrafts

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
    by_type: dict[str, TypeDrafts] | None = None


def account(
    timings: Timings,
    delta: Mapping[str, float],
    log: RequestLog | None,
    by_type: Mapping[str, TypeDrafts] | None = None,
    *,
    speculative: bool,
    prompt_decodes: int,
) -> Account:
    """Join the sources of one request: its answer, the metrics, and the log where a build counts less.

    Args:
        timings: of the answer; its draft counts are there only if something was drafted.
        delta: `/metrics` after the request minus before.
        log: the request's lines, which alone tell replays.
        by_type: what each type did by the log's statistics, which count the tokens of a replay again.
        speculative: whether the config drafts at all; where it does not, nothing drafted is known to be 0.
        prompt_decodes: how many decodes the prompt takes (`engine.decodes.prompt_decodes`).

    Worked example: 60 tokens, 28 accepted, `n_decode_total` rises by 33, the prompt takes 2: both
    60 - 1 - 28 and 33 - 2 say 31 steps; 15 drafts and 15 replays leave 1 plain step.
    """
    n_decode = _count(delta, _DECODES)
    if not speculative:
        found = Account(0, 0, timings.predicted_n - 1, 0, 0, (), n_decode)
        by_type = {}
    else:
        found = _of_sources(timings, delta, log, by_type, n_decode)
    by_count = None if n_decode is None else n_decode - prompt_decodes
    found = _consistent(found, timings.predicted_n, by_count)
    return replace(found, by_type=_of_types(by_type, found))


def _of_sources(
    timings: Timings,
    delta: Mapping[str, float],
    log: RequestLog | None,
    by_type: Mapping[str, TypeDrafts] | None,
    n_decode: int | None,
) -> Account:
    drafted = _first(timings.draft_n, _count(delta, _DRAFTED), _sum(by_type, "drafted"))
    accepted = _first(timings.draft_n_accepted, _count(delta, _ACCEPTED), 0 if drafted == 0 else None)
    whole = log is not None and (log.drafted, log.accepted) == (drafted, accepted)
    traced = log if whole and drafted else None
    verify = _first(_count(delta, _VERIFY), _sum(by_type, "drafts"), traced.verify_steps if traced else None)
    return Account(
        drafted=drafted,
        accepted=accepted,
        steps=None if accepted is None else decodes.steps(timings.predicted_n, accepted),
        verify_steps=verify,
        replays=_replays(drafted, accepted, verify, log),
        per_position=_per_position(delta, traced, accepted),
        n_decode=n_decode,
    )


def _of_types(by_type: Mapping[str, TypeDrafts] | None, found: Account) -> dict[str, TypeDrafts] | None:
    """Keep what adds up with the other sources, each type's accepted tokens where they can be told.

    The statistics' sum of accepted tokens exceeds the request's by one for each replay, and by what was
    clipped. Which type's drafts were replayed is not printed: then only a type that drafted alone is known.
    """
    if by_type is None or _sum(by_type, "drafted") != found.drafted:
        return None
    if found.verify_steps is not None and _sum(by_type, "drafts") != found.verify_steps:
        return None
    exact = _sum(by_type, "accepted") == found.accepted
    alone = sum(drafts.drafted > 0 for drafts in by_type.values()) == 1

    def accepted(drafts: TypeDrafts) -> int | None:
        if drafts.drafted == 0:
            return 0
        if alone:
            return found.accepted
        return drafts.accepted if exact else None

    return {name: structs.replace(drafts, accepted=accepted(drafts)) for name, drafts in by_type.items()}


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


def _per_position(
    delta: Mapping[str, float], traced: RequestLog | None, accepted: int | None
) -> tuple[int, ...] | None:
    """By the metrics, or by a trace that is whole; None where neither counts positions."""
    if accepted == 0:
        return ()
    if _VERIFY not in delta:
        return tuple(traced.accepted_per_pos) if traced is not None else None
    by_position = {int(m[1]): int(n) for name, n in delta.items() if (m := _PER_POSITION.fullmatch(name))}
    counts = [by_position.get(i, 0) for i in range(max(by_position, default=-1) + 1)]
    while counts and counts[-1] == 0:  # positions that only earlier requests reached
        counts.pop()
    return tuple(counts)


def _count(delta: Mapping[str, float], name: str) -> int | None:
    return int(delta[name]) if name in delta else None


def _sum(by_type: Mapping[str, TypeDrafts] | None, field: str) -> int | None:
    return None if by_type is None else sum(getattr(drafts, field) for drafts in by_type.values())


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
