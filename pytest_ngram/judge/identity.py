"""Whether two greedy texts are the same, and what their first difference is.

The rows are tried in this order; only the first difference is judged:

| what is seen at the first difference | class |
|---|---|
| the control failed | cannot compare |
| the ids of the prompt differ | prompt changed |
| one text is a prefix of the other | truncated |
| the config on a fresh server agrees, on the warmed one it does not | state leak |
| the other token is the baseline's runner-up, its lead 0 to below the measured bound | numeric near-tie |
| anything else | logic fault |
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pytest_ngram.judge.types import Answer, Margin, Verdict, failed, passed

CANNOT_COMPARE = "cannot compare"
PROMPT_CHANGED = "prompt changed"
TRUNCATED = "truncated"
STATE_LEAK = "state leak"
NEAR_TIE = "numeric near-tie"
LOGIC_FAULT = "logic fault"
_SHOWN = 8


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at the first difference.

    Args:
        expected, got: the ids of the baseline and of the config.
        control: whether the baseline agreed with itself on another fresh server.
        prompts: whether baseline, config and the stored prompt have the same ids.
        fresh_agrees: whether the config agrees with the baseline on a fresh server; None where not asked.
        margin: of the baseline at the first difference; None where it could not be told. A golden is held
            against the baseline itself, so its token is either of the two.
        bound: leads below it were seen to be within the reach of a change of threads or batch; None where
            it was not measured.
        widths: smallest and largest verify batch of the config's request.
        unknown: what of the above was asked and could not be told, and why.
    """

    expected: tuple[int, ...]
    got: tuple[int, ...]
    control: bool = True
    prompts: bool = True
    fresh_agrees: bool | None = None
    margin: Margin | None = None
    bound: float | None = None
    widths: tuple[int, int] | None = None
    unknown: tuple[str, ...] = ()


def first_difference(expected: Sequence[int], got: Sequence[int]) -> int | None:
    """Return the first index at which two texts differ, the shorter one's length where it is a prefix.

    `(1, 2, 3)` and `(1, 9, 3)` differ at 1, `(1, 2)` and `(1, 2, 3)` at 2, equal ones nowhere (None).
    """
    for i, (left, right) in enumerate(zip(expected, got, strict=False)):
        if left != right:
            return i
    return None if len(expected) == len(got) else min(len(expected), len(got))


def classify(seen: Seen) -> str | None:
    """Return the class of the first difference by the table, None where the texts are equal."""
    index = first_difference(seen.expected, seen.got)
    if not seen.control:
        return CANNOT_COMPARE
    if index is None:
        return None
    if not seen.prompts:
        return PROMPT_CHANGED
    if index in (len(seen.expected), len(seen.got)):
        return TRUNCATED
    if seen.fresh_agrees:
        return STATE_LEAK
    return NEAR_TIE if _near_tie(seen, index) else LOGIC_FAULT


def judge(seen: Seen, *, policy: str, gate: str = "identity", names: tuple[str, str]) -> Verdict:
    """Return the verdict on two texts.

    Args:
        seen: the texts and what is known of their first difference.
        policy: `near-tie` lets a numeric near-tie pass, and counts it; any other lets nothing pass.
        gate: in whose name.
        names: what `expected` and `got` are called.
    """
    kind = classify(seen)
    if kind is None:
        return passed(gate)
    lines = describe(seen, names)
    if kind in (CANNOT_COMPARE, PROMPT_CHANGED):
        return Verdict(gate, "cannot compare", kind, lines)
    if kind == NEAR_TIE and policy == "near-tie":
        return passed(gate, *lines, kind=NEAR_TIE)
    return failed(gate, kind, lines)


def describe(seen: Seen, names: tuple[str, str]) -> tuple[str, ...]:
    """Say where two texts part, how each goes on, and how sure the baseline was there."""
    index = first_difference(seen.expected, seen.got)
    if index is None:
        return ("the two texts are the same",)
    longest = max(map(len, names))
    lines = [f"first difference at token {index}"]
    for name, ids in zip(names, (seen.expected, seen.got), strict=True):
        lines.append(f"{name:<{longest}} goes on {_continuation(ids, index)}")
    if seen.margin is not None:
        margin = seen.margin
        lead = f"{margin.token} by {margin.lead:.6f} nats over its runner-up {margin.runner_up}"
        lines.append(f"the baseline led with {lead}")
        if margin.lead < 0:
            lines.append("a lead below 0 is no greedy choice, so it excuses nothing")
    if seen.bound is not None:
        lines.append(
            f"a change of threads or batch moves a lead by up to {seen.bound:.6f} nats on this model"
        )
    if seen.widths is not None:
        lines.append(f"verify batches were {seen.widths[0]} to {seen.widths[1]} tokens wide")
    if seen.fresh_agrees and _near_tie(seen, index):
        lines.append("the lead is small: other drafts after other prompts may have flipped a near-tie")
    return (*lines, *seen.unknown)


def same_prompt(stored: Sequence[int] | None, *answers: Answer) -> bool:
    """Whether all answers are to the same prompt ids, those stored included where there are any."""
    known = {tuple(stored)} if stored is not None else set()
    return len(known | {answer.prompt_ids for answer in answers}) <= 1


def _near_tie(seen: Seen, index: int) -> bool:
    margin = seen.margin
    if margin is None or seen.bound is None or index >= min(len(seen.expected), len(seen.got)):
        return False
    pair = {margin.token, margin.runner_up}
    # a lead below 0 is no near-tie: the baseline chose a token that was not the likeliest
    return pair == {seen.expected[index], seen.got[index]} and 0 <= margin.lead < seen.bound


def _continuation(ids: Sequence[int], index: int) -> str:
    shown = " ".join(map(str, ids[index : index + _SHOWN]))
    more = " …" if len(ids) > index + _SHOWN else ""
    return f"{shown}{more}" if shown else "(ends here)"
