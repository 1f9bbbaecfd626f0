"""What a table costs an engine, from its keys and pairs: memory and time to load. Pure.

llama.cpp keeps a table as a hash map of hash maps. Each slot (`-np`) gets a copy of its own, and while a
server starts a second copy of all of them is alive (b11434, `common/speculative.cpp`). Where the allocator
does not give the second one back, it stays. So memory is linear in slots, keys and pairs, and what a key and
a pair cost is measured on the engine at hand: `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """What each key and each pair of a table adds to something, at one slot."""

    per_key: float
    per_pair: float

    def of(self, keys: int, pairs: int) -> float:
        """The sum over a table."""
        return self.per_key * keys + self.per_pair * pairs


@dataclass(frozen=True, slots=True)
class Law:
    """The price of any table on one engine.

    Args:
        anon: bytes of anonymous memory (`RssAnon`) once the server is ready, at one slot.
        peak: bytes by which the most that was resident (`VmHWM`) grows, at one slot.
        load: seconds by which the start gets longer, at one slot.
    """

    anon: Rate
    peak: Rate
    load: Rate

    def price(self, keys: int, pairs: int, slots: int = 1) -> Price:
        """Predict what a table costs a server of so many slots.

        Memory is that of one slot times `slots`. Loading builds the map once and copies it twice per slot;
        with a copy about as dear as the build, the time is (1 + 2 · slots) ÷ 3 of that with one slot.
        """
        return Price(
            anon_bytes=round(slots * self.anon.of(keys, pairs)),
            peak_bytes=round(slots * self.peak.of(keys, pairs)),
            load_s=(1 + 2 * slots) / 3 * self.load.of(keys, pairs),
        )


@dataclass(frozen=True, slots=True)
class Price:
    """What a table adds to a server: predicted, or measured as the difference to a start without it."""

    anon_bytes: int
    peak_bytes: int
    load_s: float

    @property
    def need_bytes(self) -> int:
        """What has to be free before the start."""
        return max(self.anon_bytes, self.peak_bytes)


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured price, at one slot, and the table that it was measured with."""

    keys: int
    pairs: int
    price: Price


# Without a calibration: what xllamacpp 2026.10.11549 (b11549) and a native llama-server b11434 showed on
# x86-64 Linux with glibc's allocator, at -np 1, 2 and 4, and agreed on within 1 %: tables of 20 000 and
# 100 000 keys with 1 to 12 pairs each. Two tables of real text, of 48 000 and 129 000 keys, were met within
# 1 %. The times were seen on a host with other work to do.
DEFAULT = Law(anon=Rate(430.0, 65.0), peak=Rate(435.0, 65.0), load=Rate(1.5e-6, 0.5e-6))
DEFAULT_SOURCE = "measured with llama.cpp b11434 and b11549 on x86-64 Linux; this engine is not calibrated"


def fit(samples: Sequence[Sample]) -> Law | None:
    """Find the law that two measured tables obey; None where they cannot decide it.

    With 430 bytes a key and 64 a pair, 1000 keys of one pair cost 494 000 bytes and 1000 keys of four
    686 000: the difference is 3000 pairs.

    Args:
        samples: two, whose tables differ in pairs per key.

    Returns:
        None where the tables have the same pairs per key, or the memory measured would make a key or a pair
        cost less than nothing: the tables were too small to tell. A time below nothing is taken for zero.
    """
    one, other = samples
    anon = _solve(one, one.price.anon_bytes, other, other.price.anon_bytes)
    peak = _solve(one, one.price.peak_bytes, other, other.price.peak_bytes)
    load = _solve(one, one.price.load_s, other, other.price.load_s)
    if anon is None or peak is None or load is None:
        return None
    if min(anon.per_key, anon.per_pair, peak.per_key, peak.per_pair) <= 0:
        return None
    return Law(anon, peak, Rate(max(0.0, load.per_key), max(0.0, load.per_pair)))


def _solve(one: Sample, of_one: float, other: Sample, of_other: float) -> Rate | None:
    """Cramer's rule for two equations `per_key · keys + per_pair · pairs = measured`."""
    determinant = one.keys * other.pairs - other.keys * one.pairs
    if determinant == 0:
        return None
    per_key = (of_one * other.pairs - of_other * one.pairs) / determinant
    per_pair = (one.keys * of_other - other.keys * of_one) / determinant
    return Rate(per_key, per_pair)


@dataclass(frozen=True, slots=True)
class Need:
    """What a table needs of memory before a start, and what to do where that is too much.

    Args:
        name: of the file.
        slots: `-np`.
        source: how the price is known.
        advice: bytes that there are for the table → the pruning that would fit.
    """

    name: str
    keys: int
    pairs: int
    slots: int
    price: Price
    source: str
    advice: Callable[[int], str]
