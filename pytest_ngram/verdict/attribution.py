"""Why a token costs more or less than before: the change of ms per token, split among what makes it. Pure.

A generation of N tokens after the first is P plain steps, V verify steps with A accepted tokens among them,
and R replays. Each decode gives a token and each accepted one is a token more, so N = P + V + R + A. Divided
by the P + V steps that are no replays, with coverage c = V ÷ (P + V), accepted tokens per verify step
a = A ÷ V and replays per verify step r = R ÷ V, what a token costs is

    draft + (1 − c) plain + c (verify + r replay)
    --------------------------------------------- + rest
                   1 + c (a + r)

where `draft` is the drafting time per step, `plain`, `verify` and `replay` are the times of one such step
without it, and `rest` is what no step of the trace accounts for, per token.

Between two runs any of them may differ. The inputs are swapped from old to new one after the other, and what
a swap changes is its input's part. What that is depends on the order, so it is the mean over all orders: the
Shapley value. Therefore the parts add up to the whole change; an input that is the same on both sides has
the part 0, and one that alone differs has all; with old and new exchanged each part changes its sign.

Worked example: only verify steps. Old: 12 ms each and 3 accepted: 12 ÷ 4 = 3 ms a token. New: 16 ms and
1 accepted: 16 ÷ 2 = 8 ms. Verify first, then acceptance: 3 → 16 ÷ 4 = 4 → 8, so +1 and +4. Acceptance first:
3 → 12 ÷ 2 = 6 → 8, so +3 and +2. The means: verify +1.5, acceptance +3.5, and together +5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from statistics import fmean

import msgspec

from pytest_ngram.record import Round
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.cost import means

PARTS = ("acceptance", "coverage", "draft", "plain", "verify", "replay", "rest")
_COUNTED = 1e-6  # of a token: more than this off is no rounding


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the cost of a token, as the formula above has it. Times in ms.

    What there were no steps of has no time: `accepted`, `replays` and `verify_ms` are null without verify
    steps, `plain_ms` without plain ones, `replay_ms` without replays.

    Args:
        coverage: verify ÷ (plain + verify) steps, 0 to 1.
        accepted: tokens per verify step: the length of drafts is in it.
        replays: per verify step.
        draft_ms: per plain or verify step.
        plain_ms, verify_ms, replay_ms: of one step, without the drafting.
        rest_ms: per generated token.
    """

    coverage: float
    accepted: float | None
    replays: float | None
    draft_ms: float
    plain_ms: float | None
    verify_ms: float | None
    replay_ms: float | None
    rest_ms: float


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """The change of ms per token and its parts, which add up to it.

    Args:
        old_ms, new_ms: per generated token after the first, each request with the same weight.
        parts: ms per token by `PARTS`; above 0 is slower.
        old, new: what the parts were made of.
        unclear: whether plain and verify steps could not be told apart well: then these two parts are right
            in sum only.
    """

    old_ms: float
    new_ms: float
    parts: dict[str, float]
    old: Inputs
    new: Inputs
    unclear: bool = False

    @property
    def change_ms(self) -> float:
        """New − old."""
        return self.new_ms - self.old_ms


def inputs_of(rounds: Sequence[Round]) -> tuple[Inputs | None, Reason | None]:
    """Return the inputs of requests, each with the same weight; or why they are not known.

    Args:
        rounds: at least one.
    """
    untold = [each for each in rounds if each.telemetry is None or each.telemetry.cost is None]
    if untold:
        said = (each.telemetry.unread for each in untold if each.telemetry is not None)
        why = next(filter(None, said), "the run has no trace of its steps")
        return None, reason("no-step-trace", requests=len(untold), of=len(rounds), why=why)
    counts = [_per_token(each) for each in rounds]
    known = [each for each in counts if each is not None]
    if len(known) < len(rounds):
        return None, reason("no-step-counts", requests=len(rounds) - len(known), of=len(rounds))
    plain, verify, replays, accepted = (fmean(column) for column in zip(*known, strict=True))
    cost = means([each.telemetry.cost for each in rounds if each.telemetry and each.telemetry.cost])
    steps = plain + verify
    if cost is None or not steps or abs(plain + verify + replays + accepted - 1) > _COUNTED:
        return None, reason("no-step-counts", requests=len(rounds), of=len(rounds))
    return (
        Inputs(
            coverage=verify / steps,
            accepted=accepted / verify if verify else None,
            replays=replays / verify if verify else None,
            draft_ms=cost.draft_ms / steps,
            plain_ms=cost.plain_ms / plain if plain else None,
            verify_ms=cost.verify_ms / verify if verify else None,
            replay_ms=cost.replay_ms / replays if replays else None,
            rest_ms=cost.rest_ms,
        ),
        None,
    )


def _per_token(round_: Round) -> tuple[float, float, float, float] | None:
    """Plain steps, verify steps, replays and accepted tokens, per token after the first."""
    n, steps, verify = round_.predicted_n, round_.steps, round_.verify_steps
    replays, accepted = round_.replays, round_.accepted
    if n is None or steps is None or verify is None or replays is None or accepted is None or n < 2:
        return None
    tokens = n - 1
    return (steps - verify - replays) / tokens, verify / tokens, replays / tokens, accepted / tokens


def cost_ms(of: Inputs) -> float:
    """Return ms per token: the formula above. A time that is null is of no step, and counts nothing."""
    replays = of.replays or 0.0
    verify = (of.verify_ms or 0.0) + replays * (of.replay_ms or 0.0)
    above = of.draft_ms + (1 - of.coverage) * (of.plain_ms or 0.0) + of.coverage * verify
    return above / (1 + of.coverage * ((of.accepted or 0.0) + replays)) + of.rest_ms


def attribute(old: Inputs, new: Inputs) -> Attribution:
    """Split the change of ms per token. What one side has no steps of is as on the other: no part of it.

    A config that drafted nothing before and does now has changed in coverage; what its verify steps would
    have taken before is not known, and so it has not changed.
    """
    left, right = _lent(old, new), _lent(new, old)
    gone = dict.fromkeys(PARTS, 0.0)
    costs = {
        taken: cost_ms(_mixed(left, right, taken))
        for n in range(len(PARTS) + 1)
        for taken in map(frozenset, combinations(PARTS, n))
    }
    for part in PARTS:
        for taken, cost in costs.items():
            if part not in taken:
                orders = len(PARTS) * comb(len(PARTS) - 1, len(taken))
                gone[part] += (costs[taken | {part}] - cost) / orders
    return Attribution(old_ms=cost_ms(old), new_ms=cost_ms(new), parts=gone, old=old, new=new)


_FIELDS = {
    "acceptance": ("accepted",),
    "coverage": ("coverage",),
    "draft": ("draft_ms",),
    "plain": ("plain_ms",),
    "verify": ("verify_ms",),
    "replay": ("replays", "replay_ms"),
    "rest": ("rest_ms",),
}


def _lent(own: Inputs, other: Inputs) -> Inputs:
    """The inputs with the other side's in place of those that are null."""
    names = ("accepted", "replays", "plain_ms", "verify_ms", "replay_ms")
    return msgspec.structs.replace(
        own, **{name: getattr(other, name) for name in names if getattr(own, name) is None}
    )


def _mixed(old: Inputs, new: Inputs, taken: frozenset[str]) -> Inputs:
    """The old inputs with those of `taken` from the new ones."""
    names = [name for part in taken for name in _FIELDS[part]]
    return msgspec.structs.replace(old, **{name: getattr(new, name) for name in names})


def attribution_of(
    old: Sequence[Round], new: Sequence[Round]
) -> tuple[Attribution | None, tuple[Reason, ...]]:
    """Return the attribution between requests of two runs, or why there is none.

    Args:
        old, new: the requests of the cells that both runs have.
    """
    if not old or not new:
        return None, (reason("no-undisturbed-cells"),)
    (before, why_old), (after, why_new) = inputs_of(old), inputs_of(new)
    if before is None or after is None:
        whys = [each for each in (why_old, why_new) if each is not None]
        return None, tuple(each for i, each in enumerate(whys) if each not in whys[:i])
    found = attribute(before, after)
    costs = [each.telemetry.cost for each in (*old, *new) if each.telemetry and each.telemetry.cost]
    return msgspec.structs.replace(found, unclear=any(each.plain_from == "unclear" for each in costs)), ()
