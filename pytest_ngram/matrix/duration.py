"""Durations as people write and read them. Pure."""

from __future__ import annotations

import re

from pytest_ngram.errors import OptionError

_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_MINUTE_S = 60
_HOUR_S = 3600


def parse(text: str, option: str) -> float:
    """Return the seconds of `2h`, `90m`, `1h30m`, `1.5h`, `45s`.

    Args:
        text: what the user wrote; blanks are left out.
        option: the option it stands in, for the message.

    Raises:
        OptionError: no such form, or nothing above 0.
    """
    found = _FORM.fullmatch(text.replace(" ", "").lower())
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total_s = hours * _HOUR_S + minutes * _MINUTE_S + seconds
    if not 0 < total_s < float("inf"):
        raise OptionError(
            f"{option} is no duration: {text!r}",
            checked=["hours, minutes and seconds, each with its letter, in this order"],
            fix=f"write it as {option}=2h, 90m, 1h30m or 45s",
        )
    return total_s


def said(seconds: float) -> str:
    """Return a duration to read: `0.4 s`, `12 s`, `4 min 3 s`, `1 h 54 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / _MINUTE_S), _MINUTE_S)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def written(seconds: float) -> str:
    """Return a duration in the form that `parse` reads, rounded up: `45s`, `3m`, `1h30m`."""
    if seconds <= _MINUTE_S:
        return f"{_up(seconds)}s"
    minutes = _up(seconds / _MINUTE_S)
    hours, minutes = divmod(minutes, _MINUTE_S)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes or not hours else "")


def _up(value: float) -> int:
    return max(1, int(-(-value // 1)))
