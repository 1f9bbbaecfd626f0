"""Whether a request is answered, and drafted for, as if no other had been there."""

from __future__ import annotations

from pytest_ngram.judge.accounting import DRAFTED, MISSING, N_DECODE
from pytest_ngram.judge.identity import PROMPT_CHANGED, STATE_LEAK, Seen, describe, first_difference
from pytest_ngram.judge.types import Answer, Together, Verdict, failed, passed

GATE = "isolation"
DRAFTS_DIFFER = "drafts differ"
# a kind of its own: a type that keeps something of its own slot has no way there
DRAFTS_DIFFER_ON_ANOTHER_SLOT = "drafts differ on another slot"
NOT_AS_ASKED = "not as asked"


def judge(
    alone: Answer,
    beside: Answer,
    *,
    what: str,
    seen: Seen | None = None,
    counts: bool = True,
    differ: str = DRAFTS_DIFFER,
) -> Verdict:
    """Return whether an answer is the one that a fresh server gives.

    Args:
        alone: the answer of a fresh server.
        beside: the answer to the same prompt after or beside other requests.
        what: what came before or beside it.
        seen: what is known of the first difference of the two texts; None where nothing more was asked.
        counts: whether drafted and accepted must be equal too.
        differ: the class of a difference of these.
    """
    if alone.prompt_ids != beside.prompt_ids:
        prompts = Seen(expected=alone.prompt_ids, got=beside.prompt_ids)
        return failed(GATE, PROMPT_CHANGED, ["of the prompt's ids:", *describe(prompts, ("alone", what))])
    if first_difference(alone.tokens, beside.tokens) is not None:
        seen = seen or Seen(expected=alone.tokens, got=beside.tokens)
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


def on_slots(*asked: tuple[str, Answer, int]) -> Verdict:
    """Return whether requests were worked on by the slots that they asked for.

    Args:
        asked: what each request was, its answer, and the slot that it named.
    """
    lines = [
        f"{what}: slot {slot} was asked for, the answer says {_slot(answer)}"
        for what, answer, slot in asked
        if answer.id_slot != slot
    ]
    return failed(GATE, NOT_AS_ASKED, lines) if lines else passed(GATE)


def at_once(together: Together) -> Verdict:
    """Return whether two requests shared their decodes, so that either was beside the other at all.

    A request takes the decodes of its prompt and one per step, and its steps are the tokens after the first
    less those accepted. What the server counted less than the two of them together were decodes for both.
    At least half of the shorter one's have to be. Two of 2 + 63 decodes each that the server did in 67 shared
    63; in 130, none.
    """
    slots = [answer.id_slot for answer in together.answers]
    if None in slots or len(set(slots)) < len(slots):
        said = " and ".join(map(_slot, together.answers))
        return failed(GATE, NOT_AS_ASKED, [f"two slots were to work at once, the answers say {said}"])
    if together.decodes is None:
        lines = [f"/metrics has no {N_DECODE}, so nothing shows that two requests shared decodes"]
        return failed(GATE, MISSING, lines)
    own = [each.prompt_decodes + each.predicted_n - 1 - each.accepted for each in together.answers]
    shared = sum(own) - together.decodes
    needed = f"{own[0]} and {own[1]} decodes were needed"
    seen = f"{needed}, {together.decodes:.0f} were done: {shared:.0f} for both"
    if 2 * shared < min(own):
        return failed(GATE, NOT_AS_ASKED, ["the two did not run at once", seen])
    return passed(GATE, seen)


def _slot(answer: Answer) -> str:
    return "none" if answer.id_slot is None else f"slot {answer.id_slot}"


def _lacks_counts(answer: Answer) -> bool:
    """An answer without draft counts is one without drafts, unless the server counted some by itself."""
    lacks = answer.draft_n is None or answer.draft_n_accepted is None
    return lacks and (answer.metrics or {}).get(DRAFTED, 0) > 0
