"""Whether the passes of a config mean anything: it drafted, it was right, and it was wrong."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ngram.judge.types import Answer, Verdict, failed, passed

GATE = "vacuity"
VACUOUS = "vacuous"
# a kind of its own: a type that keeps something of earlier requests may draft nothing for a second one
VACUOUS_FROM_CACHE = "vacuous from the prompt cache"
ABSTAINS = "abstains"
NEVER_REJECTED = "never rejected"


def judge(answers: Sequence[Answer], *, abstains: str | None, never_rejected: str | None) -> Verdict:
    """Return whether a config's drafts exercised what identity is about, pooled over its prompts.

    Args:
        answers: of one model and config.
        abstains: why it is expected never to draft; None where it is expected to.
        never_rejected: why every draft is expected to be accepted; None where some must be wrong.
    """
    drafted, accepted = sum(a.drafted for a in answers), sum(a.accepted for a in answers)
    seen = f"{drafted} tokens drafted, {accepted} accepted in {len(answers)} answers"
    if abstains is not None:
        if drafted:
            return failed(GATE, "drafts", [seen, f"the matrix says that it abstains: {abstains}"])
        return passed(GATE, f"it abstains: {abstains}", seen, kind=ABSTAINS)
    if not drafted:
        return failed(
            GATE,
            VACUOUS,
            [seen, "nothing was drafted: say `abstains:` with a reason, or ask prompts it can draft"],
        )
    if not accepted:
        return failed(GATE, VACUOUS, [seen, "nothing was accepted, so that no accepted token was judged"])
    return _rejections(seen, drafted > accepted, never_rejected)


def exercised(answers: Sequence[Answer], *, what: str, abstains: str | None, wrong: bool) -> Verdict:
    """Return whether a part of a config's answers exercised drafts by itself, pooled over its prompts.

    Args:
        answers: the part.
        what: which part that is.
        abstains: why the config is expected never to draft; then nothing is asked of a part of its answers.
        wrong: whether some drafts of this part must be rejected; else those of the whole config suffice.
    """
    drafted, accepted = sum(a.drafted for a in answers), sum(a.accepted for a in answers)
    seen = f"{what}: {drafted} tokens drafted, {accepted} accepted in {len(answers)} answers"
    if abstains is not None:
        return passed(GATE, f"it abstains: {abstains}", seen)
    if not drafted or not accepted:
        return failed(GATE, VACUOUS, [seen, f"nothing was {'accepted' if drafted else 'drafted'} there"])
    if wrong and drafted == accepted:
        return failed(GATE, VACUOUS, [seen, "nothing was rejected there"])
    return passed(GATE, seen)


def _rejections(seen: str, any_rejected: bool, never_rejected: str | None) -> Verdict:
    if never_rejected is not None:
        if any_rejected:
            return failed(
                GATE, "rejections", [seen, f"the matrix says that all are accepted: {never_rejected}"]
            )
        return passed(GATE, f"all accepted: {never_rejected}", seen, kind=NEVER_REJECTED)
    if not any_rejected:
        return failed(
            GATE,
            VACUOUS,
            [seen, "nothing was rejected: ask other prompts, or say `gates: never_rejected:` with a reason"],
        )
    return passed(GATE, seen)


def hold(identity: Verdict, vacuity: Verdict, *, kind: str = VACUOUS) -> Verdict:
    """Turn an identity pass of a config whose drafts prove nothing into a failure of the class `kind`."""
    if identity.status == "passed" and vacuity.status == "failed":
        return failed(identity.gate, kind, ["the texts agree, but the pass proves nothing:", *vacuity.lines])
    return identity
