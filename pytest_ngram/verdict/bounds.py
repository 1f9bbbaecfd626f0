"""`--fail-on`: by how much a figure may change, and whether two runs keep to it. Pure."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from pytest_ngram.errors import OptionError
from pytest_ngram.verdict.codes import Reason, reason
from pytest_ngram.verdict.comparison import LEAST_BLOCKS, Comparison, ConfigChange, ModelChange
from pytest_ngram.verdict.figures import KINDS, OF_DRAFTS, Figure
from pytest_ngram.verdict.summary import BASELINE

Outcome = Literal["pass", "fail", "cannot tell"]
EXIT_CODES: dict[Outcome, int] = {"pass": 0, "fail": 1, "cannot tell": 3}
EXAMPLE = "tg:-5%,acceptance:-0.05,rss:+10%,pp:-10%"
_NUMBER = re.compile(r"([+-])(\d+(?:\.\d+)?|\.\d+)(%?)")
_ROUNDING = 1e-9  # 0.75 - 0.8 is a little more than 0.05
_SPEEDS = ("tg", "gain", "pp")
# An engine that ends so is broken; the other outcomes may be of the machine or of the project.
_BROKEN = frozenset({"crash", "hang"})


class Bound(msgspec.Struct, frozen=True):
    """A figure may not fall (or rise) by more than `size`: a share, or 0.05 for 5 %.

    Args:
        figure: a name of `figures.KINDS`.
        falls: whether a fall is looked for; else a rise.
        size: 0 or more.
        text: as it was written.
    """

    figure: str
    falls: bool
    size: float
    text: str


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One bound on one config. `config` is None where it is of a model as a whole, `model` of the runs."""

    outcome: Outcome
    why: Reason
    bound: str | None
    model: str | None = None
    temperature: float | None = None
    config: str | None = None


class Checked(msgspec.Struct, frozen=True):
    """All checks; the outcome is that of the worst: one failure fails, then one doubt leaves it open."""

    outcome: Outcome
    checks: tuple[Check, ...]


def parse(text: str, option: str = "--fail-on") -> tuple[Bound, ...]:
    """Read `tg:-5%,acceptance:-0.05`.

    Speeds and memory take percent of what they were; shares (and tokens per step) take what is added to
    them: of an acceptance of 0.8, `-5%` could be 0.76 or 0.75, so it is refused.

    Raises:
        OptionError: it is not of this form; names the part and what it may be.
    """
    bounds: list[Bound] = []
    for part in text.split(","):
        bound = _bound(part.strip(), text, option)
        if any((each.figure, each.falls) == (bound.figure, bound.falls) for each in bounds):
            raise _wrong(f"{bound.figure!r} has two bounds on one side", part, text, option)
        bounds.append(bound)
    return tuple(bounds)


def _bound(part: str, text: str, option: str) -> Bound:
    if not part:
        raise _wrong("it has an empty part", part, text, option)
    name, colon, value = (word.strip() for word in part.partition(":"))
    if not colon:
        raise _wrong("a part has no `:` between figure and bound", part, text, option)
    if name not in KINDS:
        raise _wrong(f"there is no figure {name!r}; there are {', '.join(KINDS)}", part, text, option)
    found = _NUMBER.fullmatch(value)
    if found is None:
        signed = value[:1] in ("+", "-")
        cause = f"{value!r} is no number" if signed else f"{value!r} has no sign: - for a fall, + for a rise"
        raise _wrong(cause, part, text, option)
    sign, number, percent = found.groups()
    size, is_ratio = float(number), KINDS[name] == "ratio"
    if not math.isfinite(size):
        raise _wrong(f"{value[:8]!r}… is beyond all numbers", part, text, option)
    if is_ratio and not percent:
        raise _wrong(f"{name} takes percent, such as {name}:{sign}5%", part, text, option)
    if not is_ratio and percent:
        raise _wrong(f"{name} takes a difference, such as {name}:{sign}0.05", part, text, option)
    size = size / 100 if is_ratio else size
    if sign == "-" and is_ratio and size >= 1:
        raise _wrong("nothing can fall by 100 % or more", part, text, option)
    if name in ("acceptance", "coverage") and size >= 1:
        raise _wrong(f"{name} is a share from 0 to 1", part, text, option)
    return Bound(name, sign == "-", size, f"{name}:{value}")


def _wrong(cause: str, part: str, text: str, option: str) -> OptionError:
    return OptionError(
        f"{option} cannot be read: {cause}",
        checked=[f"{part!r} of {text!r}"],
        fix=f"write it as {EXAMPLE}",
    )


def check(compared: Comparison, bounds: tuple[Bound, ...]) -> Checked:
    """Hold two runs against bounds. What cannot be compared cannot keep to any, and is no pass."""
    checks = [each for model in compared.models for each in _of_model(model, bounds)]
    if not checks and compared.any:
        why = reason("no-such-figure", bounds=", ".join(bound.text for bound in bounds))
        checks = [Check(outcome="cannot tell", why=why, bound=None)]
    if not checks:
        why = reason("no-shared-models", old=compared.old, new=compared.new)
        checks = [Check(outcome="cannot tell", why=why, bound=None)]
    outcomes = {each.outcome for each in checks}
    worst: Outcome = "fail" if "fail" in outcomes else "cannot tell" if "cannot tell" in outcomes else "pass"
    return Checked(worst, tuple(checks))


def _of_model(model: ModelChange, bounds: tuple[Bound, ...]) -> list[Check]:
    def made(outcome: Outcome, why: Reason, bound: str | None, config: str | None) -> Check:
        return Check(
            outcome=outcome,
            why=why,
            bound=bound,
            model=model.model,
            temperature=model.temperature,
            config=config,
        )

    if model.not_comparable:
        return [made("cannot tell", why, None, None) for why in model.not_comparable]
    found = []
    for config in model.configs:
        if config.ended_new:
            ended: Outcome = "fail" if _BROKEN & config.ended_new.keys() else "cannot tell"
            found.append(made(ended, _ended(config), None, config.config))
        if config.not_comparable:
            # what one side alone has measured is counted and told: a choice, no doubt
            measured = config.cells + config.another_state or not (config.only_old or config.only_new)
            doubts = config.not_comparable if measured or (config.only_old and config.only_new) else ()
            found += [made("cannot tell", why, None, config.config) for why in doubts]
            continue
        for bound in bounds:
            if bound.figure in config.figures:
                outcome, why = _judge(bound, config.figures[bound.figure])
                if outcome == "pass" and config.doubts and bound.figure in _SPEEDS:
                    outcome, why = "cannot tell", config.doubts[0]
                found.append(made(outcome, why, bound.text, config.config))
    return found


def _ended(config: ConfigChange) -> Reason:
    outcomes = ", ".join(f"{count} {status}" for status, count in config.ended_new.items())
    return reason("ended-badly-now", cells=sum(config.ended_new.values()), outcomes=outcomes)


def _judge(bound: Bound, figure: Figure) -> tuple[Outcome, Reason]:
    """Whether a figure keeps to a bound, with all of its interval and its floor."""
    if figure.change is None:
        return "cannot tell", figure.why or reason("bound-untold", bound=bound.text)
    if figure.blocks < LEAST_BLOCKS or figure.low is None or figure.high is None:
        return "cannot tell", reason(
            "bound-few-blocks", bound=bound.text, blocks=figure.blocks, least=LEAST_BLOCKS
        )
    if bound.figure in _SPEEDS and figure.floor is None:
        return "cannot tell", reason("bound-no-floor", bound=bound.text, baseline=BASELINE)
    low, high = reach(figure)
    values = {"bound": bound.text, **_shown(figure, low, high)}
    limit = -bound.size - _ROUNDING if bound.falls else bound.size + _ROUNDING
    if (low >= limit) if bound.falls else (high <= limit):
        return "pass", reason("within-bound", **values)
    if (high < limit) if bound.falls else (low > limit):
        return "fail", reason("beyond-bound", **values)
    return "cannot tell", reason("bound-in-doubt", **values)


def reach(figure: Figure) -> tuple[float, float]:
    """Return the ends of what a change may be: of its interval or its floor, whichever is farther."""
    if figure.change is None or figure.low is None or figure.high is None:
        raise ValueError("a change without an interval has no ends")
    if figure.floor is None:
        return figure.low, figure.high
    near = 1 + figure.change
    return (
        min(figure.low, near / (1 + figure.floor) - 1),
        max(figure.high, near * (1 + figure.floor) - 1),
    )


def _shown(figure: Figure, low: float, high: float) -> dict[str, str]:
    form = "{:+.1%}" if figure.kind == "ratio" else "{:+.3f}"
    numbers = {"change": figure.change or 0.0, "low": low, "high": high}
    return {name: form.format(number) for name, number in numbers.items()}


__all__ = ["EXIT_CODES", "OF_DRAFTS", "Bound", "Check", "Checked", "check", "parse", "reach"]
