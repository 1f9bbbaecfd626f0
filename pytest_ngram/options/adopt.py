"""`--ngram-adopt`: what a config has to gain, and what it may cost."""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from pytest_ngram.errors import OptionError
from pytest_ngram.verdict.types import Settings

_PART = re.compile(r"(tg|pp|rss):([+-])(\d+(?:\.\d+)?)(%|MiB)")
# What may be said: the sign and unit of each, and the setting that it is.
_SETTINGS = {
    ("tg", "+", "%"): "threshold",
    ("pp", "-", "%"): "pp_loss",
    ("rss", "+", "%"): "rss_gain",
    ("rss", "+", "MiB"): "rss_least_mb",
}


def parse(text: str, option: str = "--ngram-adopt") -> Settings:
    """Read `tg:+5%,pp:-15%,rss:+25%,rss:+256MiB`; what is not named keeps its default.

    Raises:
        OptionError: another name, sign or unit, a limit that is told twice, or one beyond all numbers.
    """
    settings, named = Settings(), set[str]()
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _PART.fullmatch(part)
        name = _SETTINGS.get((match[1], match[2], match[4])) if match else None
        if match is None or name is None or name in named or not math.isfinite(float(match[3])):
            raise OptionError(
                f"{option} cannot be read: {part}",
                checked=[text],
                fix="name the gain in speed that is wanted, and the loss and the gain in memory that may be "
                "its price, such as tg:+5%,pp:-15%,rss:+25%,rss:+256MiB",
            )
        named.add(name)
        value = float(match[3])
        settings = replace(settings, **{name: value / 100 if match[4] == "%" else value})
    return settings
