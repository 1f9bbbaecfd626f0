"""What the user wants of a quiet and cool machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_ngram.errors import OptionError

if TYPE_CHECKING:
    import pytest

    from pytest_ngram.measure.entry import Rest
    from pytest_ngram.verdict.contention import Bounds


_LONGEST_S = 86_400  # a day: who means to wait longer has mistyped it
_MOST_REPEATS = 1000
_REPEATS = "a whole number"


@dataclass(frozen=True)
class QuietOptions:
    """What the user wants of a quiet and cool machine.

    Args:
        bounds: from where on a cell is contended or throttled.
        repeats: how many requests of a cell may be measured again for that.
        rest: what is waited for before each server.
    """

    bounds: Bounds
    repeats: int
    rest: Rest


def quiet_options(config: pytest.Config) -> QuietOptions:
    """Return the options. Raises `OptionError` for a value that cannot be followed."""
    from pytest_ngram.measure.entry import Rest
    from pytest_ngram.verdict.contention import Bounds

    max_temp = config.getoption("ngram_max_temp")
    max_temp_c = (
        None if max_temp is None else _number("--ngram-max-temp", max_temp, "degrees Celsius", 1, 200)
    )
    repeats = _number("--ngram-repeats", config.getoption("ngram_repeats"), _REPEATS, 0, _MOST_REPEATS)
    if repeats != int(repeats):
        raise _wrong("--ngram-repeats", str(repeats), f"{_REPEATS} from 0 to {_MOST_REPEATS}")
    return QuietOptions(
        bounds=Bounds(
            others=_percent("--ngram-contended", config.getoption("ngram_contended")) / 100,
            pressure=_percent("--ngram-pressure", config.getoption("ngram_pressure")),
            temp_c=max_temp_c,
        ),
        repeats=int(repeats),
        rest=Rest(
            settle_s=_seconds("--ngram-settle", config.getoption("ngram_settle")),
            max_temp_c=max_temp_c,
            sensor=config.getoption("ngram_temp_sensor"),
            deadline_s=_seconds("--ngram-cool-deadline", config.getoption("ngram_cool_deadline")),
        ),
    )


def _seconds(option: str, given: str) -> float:
    return _number(option, given, "seconds", 0, _LONGEST_S)


def _percent(option: str, given: str) -> float:
    percent = _number(option, given.strip().removesuffix("%"), "percent", 0, 100)
    if percent == 0:
        raise _wrong(option, given, "above 0 % and up to 100 %")
    return percent


def _number(option: str, given: str, what: str, least: float, most: float) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not least <= value <= most:  # nan is neither
        raise _wrong(option, given, f"{what} from {least:g} to {most:g}")
    return value


def _wrong(option: str, given: str, wanted: str) -> OptionError:
    return OptionError(f"{option} is not what it should be", checked=[given], fix=f"give {wanted}")
