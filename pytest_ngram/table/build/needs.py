"""What the tables of a run need of memory, told before a server is started with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import NgramError
from pytest_ngram.table import Counts
from pytest_ngram.table.build.fitting import mildest_that_fits
from pytest_ngram.table.build.load import read_counts
from pytest_ngram.table.build.pricing import UNCALIBRATED, KnownLaw, Pricer
from pytest_ngram.table.format import verify
from pytest_ngram.table.price import Need


class TableNeeds:
    """Prices tables by path. A calibration of the engine is used where there is one; none is made.

    Args:
        factory: of the engine that the user chose.
        cache: the cache folder.
        warn: called with what is wrong with a kept calibration.
    """

    def __init__(self, factory: Factory, cache: Path, *, warn: Callable[[str], None]) -> None:
        self._pricer = Pricer(factory, cache, warn=warn)
        self._sizes: dict[tuple[Path, int, int], tuple[int, int]] = {}

    def __call__(self, path: Path, slots: int) -> Need | None:
        """Return what a table needs on a server of so many slots; None for one that is no table."""
        try:
            keys, pairs = self._size(path)
        except (NgramError, OSError):
            return None  # what the engine makes of it is its own to say
        return need_of(path, keys, pairs, slots, self._known)

    @cached_property
    def _known(self) -> KnownLaw:
        try:
            return self._pricer.known()
        except NgramError:  # an engine that cannot be asked tells that itself, when it is started
            return UNCALIBRATED

    def _size(self, path: Path) -> tuple[int, int]:
        stat = path.stat()
        key = (path, stat.st_size, stat.st_mtime_ns)
        if key not in self._sizes:
            facts = verify(path.read_bytes(), None, dead_weight="count")
            self._sizes[key] = facts.keys, facts.pairs
        return self._sizes[key]


def need_of(path: Path, keys: int, pairs: int, slots: int, known: KnownLaw) -> Need:
    """Return what a table needs; its file is read again only to look for a pruning."""

    def advice(room_bytes: int) -> str:
        counts: Counts = read_counts(path, dead_weight="count")
        pruning = mildest_that_fits(counts, known.law, slots, room_bytes)
        if pruning is None:
            return "no pruning of the table would fit"
        return (
            f"build the table with {pruning.flags}, which leaves {pruning.keys} keys and {pruning.pairs} "
            f"pairs and needs {pruning.need_bytes / 2**30:.2f} GiB"
        )

    return Need(
        name=path.name,
        keys=keys,
        pairs=pairs,
        slots=slots,
        price=known.law.price(keys, pairs, slots),
        source=known.source,
        advice=advice,
    )
