"""Whether all that the server says of one request adds up.

Four sources speak of the same steps: the answer's `timings`, the growth of `/metrics`, the trace line of
each verify step, and the growth of each type's `statistics` line. `n_decode_total` is counted by the decoder
itself and depends on no definition of acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pytest_ngram.judge.types import Answer, Trace, Verdict, failed, passed

GATE = "accounting"
MISSING = "missing"
PAST_THE_END = "accepted past the end"
CONTRADICTION = "contradiction"

N_DECODE = "llamacpp:n_decode_total"
DRAFTED = "llamacpp:spec_decode_num_draft_tokens_total"
ACCEPTED = "llamacpp:spec_decode_num_accepted_tokens_total"
VERIFY = "llamacpp:spec_decode_num_drafts_total"
PER_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
METRICS = (N_DECODE, DRAFTED, ACCEPTED, VERIFY)
_CUT = ("eos", "word")  # what ends a text, and may stand inside a draft
_POSITION = re.compile(re.escape(PER_POSITION) + r'\{position="(\d+)"\}')

Problem = tuple[str, str]


def judge(answer: Answer, *, speculative: bool) -> Verdict:
    """Return whether the counts of one request agree; the class is that of the first contradiction.

    Args:
        answer: with its counts as each source gave them.
        speculative: whether the config drafts at all; of a baseline only its decodes are counted.

    Worked example: 60 tokens, 28 accepted, 15 verify steps and 15 replays; `n_decode_total` grew by 33 and
    the prompt takes 2. Steps are 60 - 1 - 28 = 31 = 33 - 2, of them 31 - 15 - 15 = 1 plain.
    """
    problems = list(_missing(answer, speculative))
    if not problems:
        problems = list(_contradictions(answer, speculative))
    if not problems:
        return passed(GATE)
    return failed(GATE, problems[0][0], [line for _, line in problems])


def _missing(answer: Answer, speculative: bool) -> Iterator[Problem]:
    metrics = answer.metrics
    if metrics is None:
        yield MISSING, "the server has no /metrics"
    else:
        for name in METRICS if speculative else (N_DECODE,):
            if name not in metrics:
                yield MISSING, f"/metrics has no {name}"
    if answer.trace is None:
        yield MISSING, "the log has no closing line of this request"
    if not speculative or metrics is None:
        return
    if metrics.get(DRAFTED, 0) and answer.draft_n is None:
        yield MISSING, f"timings has no draft_n, though /metrics counts {metrics[DRAFTED]:g} drafted"
    if metrics.get(DRAFTED, 0) and answer.draft_n_accepted is None:
        yield MISSING, "timings has no draft_n_accepted, though something was drafted"
    if metrics.get(ACCEPTED, 0) and not per_position(metrics):
        yield MISSING, f"/metrics has no {PER_POSITION}, though something was accepted"
    if metrics.get(DRAFTED, 0) and not answer.by_type:
        yield MISSING, "the log has no `statistics` line, though something was drafted"


def _contradictions(answer: Answer, speculative: bool) -> Iterator[Problem]:
    trace, metrics = answer.trace, answer.metrics
    if trace is None or metrics is None:  # told by `_missing`
        return
    yield from _delivered(answer)
    if speculative:
        yield from _equal("drafted", answer.drafted, metrics[DRAFTED], trace.drafted)
        yield from _equal("accepted", answer.accepted, metrics[ACCEPTED], trace.accepted)
        yield from _equal("verify steps", None, metrics[VERIFY], trace.verify)
        yield from _positions(answer, metrics, trace)
        yield from _statistics(answer, trace)
    elif answer.drafted or trace.drafted:
        yield CONTRADICTION, f"it drafts nothing, and {answer.drafted or trace.drafted} tokens were drafted"
    yield from _steps(answer, metrics, trace)


def _delivered(answer: Answer) -> Iterator[Problem]:
    if answer.predicted_n != len(answer.tokens):
        yield CONTRADICTION, f"{answer.predicted_n} tokens timed, {len(answer.tokens)} delivered"
    if answer.prompt_n + answer.cache_n != len(answer.prompt_ids):
        yield (
            CONTRADICTION,
            f"{len(answer.prompt_ids)} prompt tokens sent, {answer.prompt_n} processed and "
            f"{answer.cache_n} taken from a cache",
        )


def _steps(answer: Answer, metrics: dict[str, float], trace: Trace) -> Iterator[Problem]:
    """Steps by tokens are those by decodes, but for a last one whose own token came after the end.

    Each step gives what it got accepted and one token of its own. Where the end token, or what completes a
    stop word, is the last that a draft got accepted, the step's own token is not delivered: one step more.
    What was accepted beyond that is more than one.
    """
    steps = answer.predicted_n - 1 - answer.accepted
    cut = int(answer.stop in _CUT and bool(trace.ends_whole))
    needed = trace.verify + trace.replays
    if steps + cut < needed:
        yield (
            PAST_THE_END,
            f"{answer.accepted} accepted of {answer.predicted_n} delivered leave {steps} steps, but "
            f"{trace.verify} verify steps and {trace.replays} replays were seen",
        )
    counted = metrics[N_DECODE] - answer.prompt_decodes
    if not steps <= counted <= steps + cut:
        past = steps + cut < needed or _within_a_draft(answer, trace, counted - steps)
        yield (
            PAST_THE_END if past else CONTRADICTION,
            f"{steps} steps by tokens ({answer.predicted_n} - 1 - {answer.accepted}), {counted:g} by decodes "
            f"({metrics[N_DECODE]:g} - {answer.prompt_decodes} of the prompt)",
        )


def _within_a_draft(answer: Answer, trace: Trace, surplus: float) -> bool:
    """Whether the last draft can have been accepted so far past the end of a text that ended by itself."""
    return answer.stop in _CUT and trace.widths is not None and 0 < surplus <= trace.widths[1]


def _equal(what: str, timings: int | None, metrics: float, trace: int) -> Iterator[Problem]:
    values = [value for value in (timings, metrics, trace) if value is not None]
    if len(set(values)) > 1:
        said = f"timings {timings}, " if timings is not None else ""
        yield CONTRADICTION, f"{what}: {said}/metrics {metrics:g}, trace {trace}"


def _positions(answer: Answer, metrics: dict[str, float], trace: Trace) -> Iterator[Problem]:
    counts = per_position(metrics)
    if sum(counts) != metrics[ACCEPTED]:
        yield (
            CONTRADICTION,
            f"accepted by position {list(counts)} is {sum(counts)}, /metrics counts {metrics[ACCEPTED]:g}",
        )
    if counts != trace.per_position:
        yield (
            CONTRADICTION,
            f"accepted by position: /metrics {list(counts)}, trace {list(trace.per_position)}",
        )


def _statistics(answer: Answer, trace: Trace) -> Iterator[Problem]:
    counts: Callable[[str], int] = lambda name: sum(  # noqa: E731 - one line, used twice
        getattr(each, name) for each in (answer.by_type or {}).values()
    )
    if answer.by_type is None:  # told by `_missing` where something was drafted
        return
    drafted, accepted = counts("drafted"), counts("accepted")
    if drafted != answer.drafted:
        yield CONTRADICTION, f"statistics count {drafted} drafted, timings {answer.drafted}"
    if accepted - trace.replays != answer.accepted:
        yield (
            CONTRADICTION,
            f"statistics count {accepted} accepted, less {trace.replays} replays; timings {answer.accepted}",
        )


def per_position(metrics: dict[str, float]) -> tuple[int, ...]:
    """Return accepted tokens by position, from the first; positions that only others reached are cut off."""
    found = {int(m[1]): int(value) for name, value in metrics.items() if (m := _POSITION.fullmatch(name))}
    counts = [found.get(i, 0) for i in range(max(found, default=-1) + 1)]
    while counts and counts[-1] == 0:
        counts.pop()
    return tuple(counts)
