"""What each kind of step cost, without and with the drafting: step times by width, and the split. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from pytest_ngram.record import Cost, StepTime
from pytest_ngram.verdict.steps import UNCLEAR, Steps

UNEXPLAINED = 0.02  # of the generation time, from where on the record says so


@dataclass(frozen=True)
class Drafting:
    """How long the types drafted, by name, in ms; without the catch-up decode of MTP."""

    ms: Mapping[str, float]

    def shares(self, steps: Steps) -> tuple[tuple[float, ...], float]:
        """Share the time out: what each verify step had of it, and all plain steps together.

        A type that looks things up takes as long for each call. One that decodes (`draft-…`) takes one
        decode more than it drafts where it gives up early, so its time goes by drafted + 1: width 4 has
        twice the share of width 2, and so has it of a plain step, before which one token was thrown away.
        """
        widths = [step.width for step in steps.verify]
        per_step, plain_ms = [0.0] * len(widths), 0.0
        for name, ms in self.ms.items():
            weights = widths if name.startswith("draft-") else [1] * len(widths)
            whole = sum(weights) + steps.plain_n
            if not whole:
                continue
            per_step = [had + ms * weight / whole for had, weight in zip(per_step, weights, strict=True)]
            plain_ms += ms * steps.plain_n / whole
        return tuple(per_step), plain_ms


def step_times(steps: Steps, drafting: Drafting) -> dict[str, StepTime]:
    """Return the time of plain steps (width 1) and of verify steps by width, without the drafting.

    Only verify steps that had their gap to themselves are in it: of the others a part was taken off that is
    only known on average. None is where the fit cannot tell which those are.
    """
    shares, plain_share = drafting.shares(steps)
    alone: dict[int, list[float]] = defaultdict(list)
    for step, share in zip(steps.verify, shares, strict=True):
        if step.alone and steps.residual <= UNCLEAR:
            alone[step.width].append(step.ms - share)
    found = {}
    if steps.plain_n:
        found["1"] = StepTime(n=steps.plain_n, mean_ms=(steps.plain_ms - plain_share) / steps.plain_n)
    for width, times in sorted(alone.items()):
        found[str(width)] = StepTime(
            n=len(times), mean_ms=fmean(times), median_ms=median(times), min_ms=min(times)
        )
    return found


def split(steps: Steps, drafting: Drafting, generation_ms: float, tokens: int) -> Cost:
    """Return where the generation time went, per token.

    Args:
        steps: with their drafting.
        drafting: the types' own time in this request.
        generation_ms: the server's `predicted_ms`.
        tokens: that were generated after the first, which comes out of the prompt's decode.

    Worked example: 100 ms for 50 tokens; 10 verify steps took 70 ms with their drafting, 4 plain steps 29 ms;
    ngram-simple drafted for 1.4 ms in 14 calls. Verify 69 ms, plain 28.6 ms, draft 1.4 ms, rest 1 ms; in ms
    per token 1.38, 0.572, 0.028 and 0.02.
    """
    shares, plain_share = drafting.shares(steps)
    verify_ms = sum(step.ms for step in steps.verify) - sum(shares)
    plain_ms = steps.plain_ms - plain_share
    draft_ms = sum(shares) + plain_share
    replay_ms = sum(steps.replay_ms)
    rest_ms = generation_ms - draft_ms - verify_ms - replay_ms - plain_ms
    return Cost(
        draft_ms=draft_ms / tokens,
        verify_ms=verify_ms / tokens,
        replay_ms=replay_ms / tokens,
        plain_ms=plain_ms / tokens,
        rest_ms=rest_ms / tokens,
        plain_from=_plain_from(steps, min(plain_ms, verify_ms) / generation_ms),
        unexplained=_unexplained(rest_ms, generation_ms),
    )


def _plain_from(steps: Steps, lesser: float) -> Literal["alone", "gaps", "unclear"]:
    """How sure the split is; where the lesser of the two kinds is next to nothing, so is the doubt."""
    if not steps.verify or steps.residual == 0:
        return "alone"
    return "gaps" if steps.residual <= UNCLEAR or lesser <= UNEXPLAINED else "unclear"


def _unexplained(rest_ms: float, generation_ms: float) -> str | None:
    if abs(rest_ms) <= UNEXPLAINED * generation_ms:
        return None
    return (
        f"{rest_ms:.2f} of {generation_ms:.2f} ms ({rest_ms / generation_ms:+.1%}) of the generation time "
        "are in no step of the trace"
    )


def means(rows: Sequence[Cost]) -> Cost | None:
    """Return the mean over requests, each weighing the same; None where there is none."""
    if not rows:
        return None
    worst = max(rows, key=lambda row: ("alone", "gaps", "unclear").index(row.plain_from))
    return Cost(
        draft_ms=fmean(row.draft_ms for row in rows),
        verify_ms=fmean(row.verify_ms for row in rows),
        replay_ms=fmean(row.replay_ms for row in rows),
        plain_ms=fmean(row.plain_ms for row in rows),
        rest_ms=fmean(row.rest_ms for row in rows),
        plain_from=worst.plain_from,
        unexplained=next((row.unexplained for row in rows if row.unexplained), None),
    )
