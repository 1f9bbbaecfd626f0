"""The best setting of a sweep, chosen on one half of the prompts and reported on the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_ngram.drafting.cost import Curve, Predicted, Timed, predict
from pytest_ngram.drafting.grid import halves
from pytest_ngram.drafting.policy import Policy
from pytest_ngram.drafting.tally import Tally, pooled
from pytest_ngram.replay.sweep import Result, Stream

Costs = Mapping[str, tuple[Curve | None, Sequence[Timed]]]


@dataclass(frozen=True)
class Choice:
    """The setting that was best on the prompts that it was chosen on.

    Args:
        stream: model and temperature.
        policy: the setting.
        chosen_on, held_out: the prompts of either half.
        there, here: its tally on the one and the other.
        tg: on the held-out half, as predicted; None without a cost curve.
        by: what was highest: `tg` or `tokens per step`.
        place: how many settings were better on the held-out half, plus 1.
        settings: how many there were.
    """

    stream: str
    policy: Policy
    chosen_on: tuple[str, ...]
    held_out: tuple[str, ...]
    there: Tally
    here: Tally
    tg: Predicted | None
    by: str
    place: int
    settings: int


def choose(results: Iterable[Result], streams: Sequence[Stream], costs: Costs) -> list[Choice]:
    """Return the choice for each stream; none for one with a single prompt, which has no other half.

    The highest predicted tg is best, or where no cost curve is known the most tokens per step, which takes
    long drafts to be free. Of equals the first of the sweep is taken.
    """
    all_of = list(results)
    return [
        _choose([each for each in all_of if each.stream == stream.name], stream, *costs[stream.name])
        for stream in streams
        if len(set(stream.prompts)) > 1
    ]


def _choose(results: Sequence[Result], stream: Stream, curve: Curve | None, timed: Sequence[Timed]) -> Choice:
    chosen_on, held_out = halves(stream.prompts)
    best = max(results, key=lambda result: _worth(result, chosen_on, curve))
    own = _worth(best, held_out, curve)
    return Choice(
        stream=stream.name,
        policy=best.policy,
        chosen_on=chosen_on,
        held_out=held_out,
        there=pooled(best.of(chosen_on)),
        here=pooled(best.of(held_out)),
        tg=predict(best.of(held_out), curve, timed),
        by="tg" if curve is not None else "tokens per step",
        place=1 + sum(_worth(result, held_out, curve) > own for result in results),
        settings=len(results),
    )


def _worth(result: Result, prompts: Sequence[str], curve: Curve | None) -> float:
    tally = pooled(result.of(prompts))
    if curve is None:
        return tally.tokens_per_step or 0.0
    seconds = curve.seconds_of(tally.widths)
    return tally.generated / seconds if seconds > 0 else 0.0
