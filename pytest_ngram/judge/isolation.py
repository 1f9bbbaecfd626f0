"""Whether a request is answered, and drafted for, as if no other had been there."""

from __future__ import annotations

from pytest_ngram.judge.accounting import DRAFTED, MISSING
from pytest_ngram.judge.identity import PROMPT_CHANGED, STATE_LEAK, Seen, describe, first_difference
from pytest_ngram.judge.types import Answer, Verdict, failed, passed

GATE = "isolation"
DRAFTS_DIFFER = "drafts differ"
# a kind of its own: a type that keeps something of its own slot has no way there
DRAFTS_DIFFER_ON_ANOTHER_SLOT = "drafts differ on another slot"


def judge(
    alone: Answer, beside: Answer, *, what: str, counts: bool = True, differ: str = DRAFTS_DIFFER
) -> Verdict:
    """Return whether an answer is the one that a fresh server gives.

    Args:
        alone: the answer of a fresh server.
        beside: the answer to the same prompt after or beside other requests.
        what: what came before or beside it.
        counts: whether drafted and accepted must be equal too.
        differ: the class of a difference of these.
    """
    if alone.prompt_ids != beside.prompt_ids:
        seen = Seen(expected=alone.prompt_ids, got=beside.prompt_ids)
        return failed(GATE, PROMPT_CHANGED, ["of the prompt's ids:", *describe(seen, ("alone", what))])
    if first_difference(alone.tokens, beside.tokens) is not None:
        widths = beside.trace.widths if beside.trace is not None else None
        seen = Seen(expected=alone.tokens, got=beside.tokens, widths=widths)
        return failed(GATE, STATE_LEAK, describe(seen, ("alone", what)))
    lacking = [name for name, each in (("alone", alone), (what, beside)) if counts and _lacks_counts(each)]
    if lacking:
        lines = [f"{name}: /metrics counts drafts, the answer's timings have no counts" for name in lacking]
        return failed(GATE, MISSING, lines)
    here, there = (alone.drafted, alone.accepted), (beside.drafted, beside.accepted)
    if counts and here != there:
        return failed(
            GATE,
            differ,
            [
                "the text is the same",
                f"alone: {here[0]} drafted, {here[1]} accepted",
                f"{what}: {there[0]} drafted, {there[1]} accepted",
            ],
        )
    return passed(GATE)


def _lacks_counts(answer: Answer) -> bool:
    """An answer without draft counts is one without drafts, unless the server counted some by itself."""
    lacks = answer.draft_n is None or answer.draft_n_accepted is None
    return lacks and (answer.metrics or {}).get(DRAFTED, 0) > 0
