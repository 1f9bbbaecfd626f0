"""The virtual clock that pytest-benchmark reads: it moves by the seconds per generated token of a request."""

from __future__ import annotations

from pytest_ngram.errors import OptionError

_READS_AT_REST = 8  # `pedantic` reads twice a round; calibration reads without end


class VirtualClock:
    """A timer for `@pytest.mark.benchmark(timer=…)`.

    It stands still until `advance`, so a duration that pytest-benchmark takes is exactly the sum of the
    advances in between. A benchmark that is calibrated (`benchmark(f)` instead of `benchmark.pedantic(f)`)
    would read it for ever; the clock refuses that.
    """

    __name__ = "virtual_clock"  # pytest-benchmark records a timer by its name

    def __init__(self) -> None:
        self._now_s = 0.0
        self._reads = 0

    def __call__(self) -> float:
        """Return the virtual time in seconds. Raises `OptionError` when it is read in a calibration loop."""
        self._reads += 1
        if self._reads > _READS_AT_REST:
            self.rest()
            raise OptionError(
                "this benchmark is being calibrated on a clock that only requests move",
                checked=[f"{_READS_AT_REST} readings without a request between them"],
                fix="call `benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds)`",
            )
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move the clock. Raises `ValueError` unless forward: a clock at rest ranks as the fastest."""
        if not seconds > 0:
            raise ValueError(f"the clock moves forward only, not by {seconds!r} s")
        self._now_s += seconds
        self._reads = 0

    def rest(self) -> None:
        """Forget the readings so far: a new cell begins."""
        self._reads = 0


CLOCK = VirtualClock()
"""The one clock of a session: pytest-benchmark wants a timer in the marker, before any fixture exists."""
