"""Whether the passes of a config mean anything: it drafted, it was right, and it was wrong."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ngram.judge.types import Answer, Verdict, failed, passed

GATE = "vacuity"
VACUOUS = "vacuous"
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


def hold(identity: Verdict, vacuity: Verdict) -> Verdict:
    """Turn an identity pass of a config whose drafts prove nothing into a failure."""
    if identity.status == "passed" and vacuity.status == "failed":
        return failed(
            identity.gate, VACUOUS, ["the texts agree, but the pass proves nothing:", *vacuity.lines]
        )
    return identity
