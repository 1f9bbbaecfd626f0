"""Prices measured on a real server: a table's own, and those from which an engine's law is found."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from pytest_ngram.engine import command
from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import EngineError, TableError
from pytest_ngram.files import write_whole
from pytest_ngram.measure import host
from pytest_ngram.measure.remembered import engine_key
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.record import MIB
from pytest_ngram.table import Counts
from pytest_ngram.table.build.files import explained, locked
from pytest_ngram.table.format import encode
from pytest_ngram.table.price import DEFAULT, DEFAULT_SOURCE, Law, Price, Sample, fit

CALIBRATION_VERSION = 1
# (keys, pairs per key): some 25 and 80 MiB at one slot, far above the noise of RSS, and a second to load
SIZES = ((50_000, 1), (100_000, 6))
_LOCK_TIMEOUT_S = 300.0
_CELLS_OF_A_SLOT = 256
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KnownLaw:
    """What tables cost on an engine, and how that is known. `calibrated`: it was measured on this engine."""

    law: Law
    source: str
    calibrated: bool


UNCALIBRATED = KnownLaw(DEFAULT, DEFAULT_SOURCE, calibrated=False)


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A calibration in the cache: of which engine, when it was measured, and from which tables."""

    version: int
    engine: str
    measured: str
    samples: tuple[Sample, ...]


class Pricer:
    """Measures what tables cost on one engine, and keeps its law in the cache.

    Args:
        factory: starts servers of the engine; one at a URL is not ours to start, so nothing is measured.
        cache: the cache folder; gets `prices/<engine>.json`.
        warn: called with what is wrong with a kept calibration; it is then done without.
    """

    def __init__(self, factory: Factory, cache: Path, *, warn: Say = lambda text: None) -> None:
        self._factory = factory
        self._cache = cache
        self._warn = warn

    @property
    def path(self) -> Path:
        """Where the calibration of this engine is kept. Raises `EngineError` as `known`."""
        digest = hashlib.sha256(self._engine().encode()).hexdigest()[:32]
        return self._cache / "prices" / f"{digest}.json"

    def known(self) -> KnownLaw:
        """Return the law of an earlier calibration of this very build, else the default. Starts nothing.

        Raises:
            EngineError: the engine cannot be asked what it is.
        """
        if self._factory.choice.kind == "url":
            return UNCALIBRATED
        path = self.path
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=Kept)
            law = (
                fit(kept.samples) if len(kept.samples) == 2 and kept.version == CALIBRATION_VERSION else None
            )
        except FileNotFoundError:
            return UNCALIBRATED
        except (OSError, msgspec.DecodeError) as error:
            self._warn(f"the kept calibration {path} cannot be read and is done without: {error}")
            return UNCALIBRATED
        if law is None:
            self._warn(f"the kept calibration {path} says nothing of use and is done without")
            return UNCALIBRATED
        return KnownLaw(law, f"calibrated on this engine, {kept.measured}", calibrated=True)

    def calibrate(self, *, again: bool = False, say: Say = lambda text: None) -> KnownLaw:
        """Return the kept law, or measure it: three starts, one without a table and two with made ones.

        Args:
            again: measure although there is one.
            say: called before each start.

        Raises:
            TableError: what was measured cannot be right, or the cache cannot be used.
            EngineError: a server did not start, or is not ours to start.
        """
        self._require_own()
        path = self.path
        with explained(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_suffix(".lock"), _LOCK_TIMEOUT_S):
            known = self.known()
            if known.calibrated and not again:
                return known
            samples = self._samples(say)
            if fit(samples) is None:
                raise _undecided(samples)
            kept = Kept(CALIBRATION_VERSION, self._engine(), time.strftime("%Y-%m-%d"), samples)
            with explained(path.parent):
                write_whole(path, msgspec.json.encode(kept))
        return self.known()

    def measure(self, table: Path, slots: int, *, say: Say = lambda text: None) -> Price:
        """Start a server without and with a table, and return the difference.

        The model is the small hand-built one: what a table costs does not depend on the model.

        Raises:
            EngineError: a server did not start, or is not ours to start.
        """
        self._require_own()
        say(f"starting the engine without a table, -np {slots}")
        without = self._start(None, slots)
        say(f"starting the engine with {table.name}, -np {slots}")
        return self._start(table, slots) - without

    def _samples(self, say: Say) -> tuple[Sample, ...]:
        with tempfile.TemporaryDirectory(prefix="pytest-ngram-") as folder:
            say("calibrating: starting the engine without a table")
            without = self._start(None, 1)
            samples = []
            for keys, pairs_per_key in SIZES:
                made = made_table(keys, pairs_per_key)
                path = Path(folder) / f"{keys}.lcs"
                path.write_bytes(encode(made))
                say(f"calibrating: starting the engine with a table of {made.keys} keys, {made.pairs} pairs")
                samples.append(Sample(made.keys, made.pairs, self._start(path, 1) - without))
        return tuple(samples)

    def _start(self, table: Path | None, slots: int) -> _Seen:
        model = generate(HandBuiltSpec(), self._cache / "models")
        argv = command.server_argv(
            model,
            model_flags=["-t", "1", "-c", str(_CELLS_OF_A_SLOT * slots), "-np", str(slots)],
            spec_types=["ngram-cache"],
            table_path=table,
            vocabulary=self._factory.vocabulary,
        )
        self._factory.check(["ngram-cache"], argv)
        with tempfile.TemporaryDirectory(prefix="pytest-ngram-") as folder:
            server = self._factory.start(argv, log_path=Path(folder) / "server.log", trace=False)
            try:
                return _seen(server.pid, server.load_s)
            finally:
                server.stop()

    def _require_own(self) -> None:
        if self._factory.choice.kind == "url":
            raise EngineError(
                "what a table costs a server at a URL cannot be measured from here",
                outcome="refused",
                checked=[f"{self._factory.choice.url} is not ours to start"],
                fix="name the llama-server binary that it runs, on the host that it runs on",
            )

    def _engine(self) -> str:
        return engine_key(self._factory, self._cache)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A server just after its start."""

    anon_mb: float
    peak_mb: float
    load_s: float

    def __sub__(self, other: _Seen) -> Price:
        """What the one has more than the other."""
        return Price(
            anon_bytes=round((self.anon_mb - other.anon_mb) * MIB),
            peak_bytes=round((self.peak_mb - other.peak_mb) * MIB),
            load_s=self.load_s - other.load_s,
        )


def _seen(pid: int | None, load_s: float) -> _Seen:
    memory = host.memory(pid)
    if memory is None or memory.rss_anon_mb is None or memory.rss_peak_mb is None:
        raise EngineError(
            "the memory of the server cannot be read",
            outcome="crash",
            checked=[f"/proc/{pid}/status: RssAnon, VmHWM"],
            fix="measure on Linux, where the kernel tells it; or predict only, with --no-start",
        )
    return _Seen(memory.rss_anon_mb, memory.rss_peak_mb, load_s)


def made_table(keys: int, pairs_per_key: int) -> Counts:
    """Return a table of so many keys, with as many pairs each, as ids of a large vocabulary lie in one."""
    rng = np.random.default_rng(1)
    packed = np.unique(rng.integers(0, 1 << 34, 2 * keys))
    packed = np.sort(rng.permutation(packed)[:keys])
    key = np.repeat(packed, pairs_per_key)
    third = np.tile(np.arange(pairs_per_key, dtype=np.int32), keys)
    count = np.full(len(key), 2, np.int64)
    return Counts((key >> 17).astype(np.int32), (key & (1 << 17) - 1).astype(np.int32), third, count)


def _undecided(samples: tuple[Sample, ...]) -> TableError:
    return TableError(
        "the engine cannot be calibrated: what was measured would make keys or pairs cost less than nothing",
        checked=[
            f"{sample.keys} keys, {sample.pairs} pairs: {sample.price.anon_bytes / MIB:.1f} MiB, "
            f"at most {sample.price.peak_bytes / MIB:.1f} MiB"
            for sample in samples
        ],
        fix="try again when the host is idle; --no-start predicts with the default law",
    )
