"""What the trace of one request tells, joined with its counts and times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from pytest_ngram.engine.client import Timings
from pytest_ngram.engine.log_reader import RequestLog
from pytest_ngram.measure.accounting import Account
from pytest_ngram.measure.trace import Said
from pytest_ngram.record import Telemetry, pack_tokens
from pytest_ngram.verdict.cost import Drafting, split, step_times
from pytest_ngram.verdict.steps import Mark, steps_of


def telemetry(
    timings: Timings,
    counts: Account,
    said: Said | None,
    *,
    wall_s: float,
    speculative: bool,
    prompt_decodes: int,
) -> Telemetry:
    """Return what the step trace tells of a request; what it does not tell is None.

    Args:
        timings: of the answer.
        counts: its tokens and steps, made consistent.
        said: what the log says of it, None where there is no log.
        wall_s: the client's own clock, from the request to the answer.
        speculative: whether the config drafts at all; where it does not, no trace line is wanted.
        prompt_decodes: how many of `n_decode` are the prompt's. The rest are steps, and those without a line
            are plain; a build that does not count decodes leaves the steps by tokens.
    """
    told = _shares(timings, counts)
    told = structs.replace(told, server_share=(timings.prompt_ms + timings.predicted_ms) / 1000 / wall_s)
    if said is None or timings.predicted_n < 2:
        return told
    if said.request is None:
        error = said.unread
        return structs.replace(told, unread=f"{error.cause}; {'; '.join(error.checked)}" if error else None)
    if counts.n_decode is not None:
        counts = replace(counts, steps=counts.n_decode - prompt_decodes)
    return _timed(told, timings, counts, said.request, said.draft_ms if speculative else {})


def _shares(timings: Timings, counts: Account) -> Telemetry:
    verify, steps, replays, accepted = counts.verify_steps, counts.steps, counts.replays, counts.accepted
    forward = None if steps is None or replays is None else steps - replays
    positions = counts.per_position
    return Telemetry(
        coverage=None if verify is None or not forward else verify / forward,
        acceptance_per_pos=tuple(n / verify for n in positions) if verify and positions is not None else None,
        tokens_per_step=(timings.predicted_n - 1) / steps if steps else None,
        mean_accepted_length=1 + accepted / verify if verify and accepted is not None else None,
    )


def _timed(
    told: Telemetry, timings: Timings, counts: Account, log: RequestLog, draft_ms: dict[str, float] | None
) -> Telemetry:
    """Add the step times. The generation begins, by the log's clock, when the prompt's time is over."""
    unread = _contradiction(counts, log)
    if unread is not None:
        return structs.replace(told, unread=unread)
    stamps = [step.at_ms for step in log.steps if step.at_ms is not None]
    if log.closed_ms is None or len(stamps) < len(log.steps):
        return structs.replace(told, unread="the lines of the log have no time stamps")
    begin_ms = log.closed_ms - timings.predicted_ms
    if log.begun_ms is not None:
        begin_ms = log.begun_ms + timings.prompt_ms
    marks = [
        Mark(at_ms - begin_ms, step.drafted, step.accepted, step.restored)
        for at_ms, step in zip(stamps, log.steps, strict=True)
    ]
    told = structs.replace(told, steps=_packed(marks))
    if counts.steps is None or counts.verify_steps is None or counts.replays is None or draft_ms is None:
        return told
    plain_n = counts.steps - counts.verify_steps - counts.replays
    if plain_n < 0:
        return structs.replace(told, unread=f"{counts.steps} steps were counted, the trace has more")
    steps = steps_of(marks, log.closed_ms - begin_ms, plain_n)
    drafting = Drafting(draft_ms)
    return structs.replace(
        told,
        step_ms_by_width=step_times(steps, drafting),
        replay_ms=sum(steps.replay_ms) / len(steps.replay_ms) if steps.replay_ms else None,
        cost=split(steps, drafting, timings.predicted_ms, timings.predicted_n - 1),
    )


def _contradiction(counts: Account, log: RequestLog) -> str | None:
    """Say where the trace lines are not those of this request's steps: lines that nobody knew, for one."""
    found = [
        f"{what}: {wanted} counted, {seen} in the trace"
        for what, wanted, seen in (
            ("verify steps", counts.verify_steps, log.verify_steps),
            ("drafted tokens", counts.drafted, log.drafted),
        )
        if wanted is not None and wanted != seen
    ]
    return f"the trace lines are not whole: {', '.join(found)}" if found else None


def _packed(marks: Sequence[Mark]) -> str:
    """Times between the lines, since a long request would not fit into 32 bits of microseconds."""
    numbers, before_us = [], 0
    for mark in marks:
        at_us = round(mark.at_ms * 1000)
        numbers += [at_us - before_us, mark.drafted, mark.accepted, int(mark.restored)]
        before_us = at_us
    return pack_tokens(numbers)
