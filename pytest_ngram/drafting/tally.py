"""What a policy did over requests, as sums and shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pytest_ngram.drafting import stacked
from pytest_ngram.drafting.compiled import Longs
from pytest_ngram.drafting.slot import Replayed


@dataclass(frozen=True)
class Tally:
    """Sums over requests. All are tokens or steps of the target after each prompt.

    Args:
        requests: how many.
        generated: tokens of the answers but for the first of each, which the prompt's decode gives.
        drafted, accepted: tokens.
        verify, plain, replays: steps with a draft, without one, and those that repeat accepted tokens.
        per_position: of each place in a draft, how many drafts reached it and how many were accepted there.
        widths: how many tokens the target decoded at once: (tokens, steps), ascending.
        ties, undefined: as `slot.Replayed`.
    """

    requests: int
    generated: int
    drafted: int
    accepted: int
    verify: int
    plain: int
    replays: int
    per_position: tuple[tuple[int, int], ...]
    widths: tuple[tuple[int, int], ...]
    ties: int
    undefined: int

    @property
    def acceptance(self) -> float | None:
        """Accepted ÷ drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def coverage(self) -> float | None:
        """Verify ÷ (plain + verify); None where there was no step."""
        steps = self.plain + self.verify
        return self.verify / steps if steps else None

    @property
    def steps(self) -> int:
        """All decodes of the target after the prompts."""
        return self.plain + self.verify + self.replays

    @property
    def tokens_per_step(self) -> float | None:
        """Generated ÷ all steps, replays included; None where there was no step."""
        return self.generated / self.steps if self.steps else None

    @property
    def accepted_per_position(self) -> tuple[float, ...]:
        """Of the drafts that reached a place, the share that was accepted there."""
        return tuple(accepted / reached for reached, accepted in self.per_position)


def tally(replayed: Iterable[Replayed]) -> Tally:
    """Return the sums over requests."""
    all_of = list(replayed)
    rows = np.concatenate([np.zeros((0, stacked.COLUMNS), np.int64), *(each.steps for each in all_of)])
    drafted, kept = rows[:, stacked.DRAFTED], rows[:, stacked.ACCEPTED]
    again = rows[:, stacked.REPLAYED] > 0
    longest = int(drafted.max(initial=0))
    reached, accepted = _above(drafted, longest), _above(kept, longest)
    steps_of = np.bincount(np.concatenate([drafted + 1, kept[again] + 2]))
    widths = {width: int(n) for width, n in enumerate(steps_of) if n}
    plain = sum(_plain(each) for each in all_of)
    if plain:
        widths[1] = widths.get(1, 0) + plain
    return Tally(
        requests=len(all_of),
        generated=sum(max(each.generated - 1, 0) for each in all_of),
        drafted=sum(each.drafted for each in all_of),
        accepted=sum(each.accepted for each in all_of),
        verify=sum(each.verify_steps for each in all_of),
        plain=plain,
        replays=sum(each.replays for each in all_of),
        per_position=tuple(zip(reached, accepted, strict=True)),
        widths=tuple(sorted(widths.items())),
        ties=sum(each.ties for each in all_of),
        undefined=sum(each.undefined for each in all_of),
    )


def _above(counts: Longs, most: int) -> list[int]:
    """How many of the counts are above 0, above 1, and so on up to `most`."""
    at_least = np.bincount(counts, minlength=most + 1)[::-1].cumsum()[::-1]
    return [int(n) for n in at_least[1 : most + 1]]


def _plain(replayed: Replayed) -> int:
    """Steps without a draft: what the verify and replay steps did not bring.

    Each of these brings what was accepted and one token of the target's own, a replay one more; a last one no
    more than the answer still has, since it may end with an accepted end of generation.
    """
    steps = replayed.steps
    each = steps[:, stacked.ACCEPTED] + 1 + steps[:, stacked.REPLAYED]
    left = replayed.generated - steps[:, stacked.GENERATED]
    return max(replayed.generated - 1 - int(np.minimum(each, left).sum()), 0)


def pooled(tallies: Iterable[Tally]) -> Tally:
    """Return the sums of tallies."""
    all_of = list(tallies)
    longest = max((len(each.per_position) for each in all_of), default=0)
    positions = [[0, 0] for _ in range(longest)]
    widths: dict[int, int] = {}
    for each in all_of:
        for place, (reached, accepted) in enumerate(each.per_position):
            positions[place][0] += reached
            positions[place][1] += accepted
        for width, steps in each.widths:
            widths[width] = widths.get(width, 0) + steps

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in all_of)

    return Tally(
        requests=total("requests"),
        generated=total("generated"),
        drafted=total("drafted"),
        accepted=total("accepted"),
        verify=total("verify"),
        plain=total("plain"),
        replays=total("replays"),
        per_position=tuple((reached, accepted) for reached, accepted in positions),
        widths=tuple(sorted(widths.items())),
        ties=total("ties"),
        undefined=total("undefined"),
    )
