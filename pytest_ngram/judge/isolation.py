"""Whether a request is answered, and drafted for, as if no other had been there."""

from __future__ import annotations

from pytest_ngram.judge.identity import STATE_LEAK, Seen, describe, first_difference
from pytest_ngram.judge.types import Answer, Verdict, failed, passed

GATE = "isolation"
DRAFTS_DIFFER = "drafts differ"


def judge(alone: Answer, beside: Answer, *, what: str, counts: bool = True) -> Verdict:
    """Return whether an answer is the one that a fresh server gives.

    Args:
        alone: the answer of a fresh server.
        beside: the answer to the same prompt after or beside other requests.
        what: what came before or beside it.
        counts: whether drafted and accepted must be equal too.
    """
    if alone.prompt_ids != beside.prompt_ids:
        return Verdict(
            GATE, "cannot compare", "prompt changed", ("the two servers made other ids of the prompt",)
        )
    if first_difference(alone.tokens, beside.tokens) is not None:
        widths = beside.trace.widths if beside.trace is not None else None
        seen = Seen(expected=alone.tokens, got=beside.tokens, widths=widths)
        return failed(GATE, STATE_LEAK, describe(seen, ("alone", what)))
    here, there = (alone.drafted, alone.accepted), (beside.drafted, beside.accepted)
    if counts and here != there:
        return failed(
            GATE,
            DRAFTS_DIFFER,
            [
                "the text is the same",
                f"alone: {here[0]} drafted, {here[1]} accepted",
                f"{what}: {there[0]} drafted, {there[1]} accepted",
            ],
        )
    return passed(GATE)
