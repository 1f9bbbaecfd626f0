"""What a decode takes on the host of a run: out of a file, or fitted to the run's own requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.drafting.cost import Curve, Predicted, Timed, estimate, fit, from_points, predict
from pytest_ngram.errors import OptionError
from pytest_ngram.replay.run_file import SavedRun
from pytest_ngram.replay.streams import timed
from pytest_ngram.replay.sweep import Result, Stream
from pytest_ngram.verdict.curve import LOOKUP
from pytest_ngram.verdict.curve import Curve as MeasuredCurve

_FORMS = (
    "what `pytest-ngram curve --out FILE` wrote, "
    'or {"1": 9.2, "2": 14.1, "4": 21.0}: tokens of a decode, and milliseconds'
)


@dataclass(frozen=True)
class Costs:
    """The curve of each stream, None where unknown, and the requests that it was fitted to.

    `source` is the file's name where the curve was given.
    """

    by_stream: Mapping[str, tuple[Curve | None, Sequence[Timed]]]
    source: str | None

    @classmethod
    def of(cls, run: SavedRun, streams: Sequence[Stream], path: Path | None) -> Costs:
        """Return them for each stream. Raises `OptionError` where the file is no cost curve."""
        if path is not None:
            given = read_curve(path)
            return cls({stream.name: (given, ()) for stream in streams}, path.name)
        found: dict[str, tuple[Curve | None, Sequence[Timed]]] = {}
        for stream in streams:
            measured = timed(run.servers, stream.model)
            found[stream.name] = (fit(measured), measured)
        return cls(found, None)

    def predict(self, result: Result) -> Predicted | None:
        """Return the speed with its interval."""
        return predict(result.of(), *self.by_stream[result.stream])

    def estimate(self, result: Result) -> Predicted | None:
        """Return the speed alone."""
        return estimate(result.of(), self.by_stream[result.stream][0])

    def told(self, stream: str) -> str:
        """Return what a decode takes, in words."""
        curve, measured = self.by_stream[stream]
        if curve is None:
            return "no cost curve: the run does not tell what wider decodes take (--cost FILE)"
        if self.source is not None:
            points = ", ".join(
                f"{tokens} tokens {seconds * 1000:.2f} ms"
                for tokens, seconds in zip(curve.tokens[:4], curve.seconds[:4], strict=True)
            )
            more = ", …" if len(curve.tokens) > 4 else ""
            return f"decodes as {self.source} says: {points}{more}"
        first, second = curve.of(1) * 1000, curve.of(2) * 1000
        of = f"(of {len(measured)} requests)"
        return f"a decode takes {first:.2f} ms, each token more {second - first:.2f} ms {of}"


def read_curve(path: Path) -> Curve:
    """Read a cost curve.

    Of a file of `pytest-ngram curve` the series of the n-gram types is taken: T(w) = plain_ms × (ratio +
    drafting w − 1 tokens), with the lowest and highest ratio over blocks as its spread.

    Raises:
        OptionError: the file is not there, or is none of the two forms.
    """
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise ValueError("it is no JSON object")
        curve = _measured(data["curve"]) if "curve" in data else _plain(data)
    except (OSError, ValueError, msgspec.ValidationError, RecursionError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(
            f"the cost curve {path.name} cannot be read: {cause}", checked=[str(path)], fix=f"name {_FORMS}"
        ) from error
    return curve


def _plain(data: Mapping[str, Any]) -> Curve:
    return from_points({int(tokens): _seconds(ms) for tokens, ms in data.items()})


def _seconds(ms: object) -> float:
    if isinstance(ms, bool) or not isinstance(ms, int | float):
        raise ValueError(f"{ms!r} is no number of milliseconds")
    return float(ms) / 1000


def _measured(data: object) -> Curve:
    found = msgspec.convert(data, MeasuredCurve)
    series = found.series.get(LOOKUP)
    if series is None:
        raise ValueError(f"it has no series {LOOKUP!r} but {', '.join(found.series) or 'none'}")
    points = {1: (1.0, 1.0, 1.0)}
    for point in series.points:
        points[point.tokens] = (point.low, point.ratio, point.high)
    low, middle, high = (
        {
            tokens: found.plain_ms / 1000 * (own[which] + series.drafting(tokens))
            for tokens, own in points.items()
        }
        for which in range(3)
    )
    return from_points(middle, low, high)
