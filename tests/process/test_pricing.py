"""The price of a table on a real engine: predicted from two sizes, and right for a third."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.errors import EngineError
from pytest_ngram.record import MIB
from pytest_ngram.table.build.pricing import Kept, KnownLaw, Pricer, made_table
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import encode
from pytest_ngram.table.price import DEFAULT

# A third size, of another shape than those of the calibration, and the most that the law may be off by. The
# array of a hash map doubles at once, which is up to 16 of some 500 bytes a key; RSS itself is within 1 MB.
KEYS, PAIRS_PER_KEY = 120_000, 3
MOST_OFF = 0.06


@pytest.fixture(scope="module")
def pricer(session_cache: Path) -> Pricer:
    """Of the embedded engine, or of the binary that PYTEST_NGRAM_LLAMA_SERVER names."""
    choice = choose(os.environ.get("PYTEST_NGRAM_LLAMA_SERVER"))
    return Pricer(Factory(choice, cache_dir=session_cache), session_cache)


@pytest.fixture(scope="module")
def known(pricer: Pricer) -> KnownLaw:
    return pricer.calibrate()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "third.lcs"
    path.write_bytes(encode(made_table(KEYS, PAIRS_PER_KEY)))
    return path


@pytest.mark.parametrize("slots", [1, 3])
def test_two_sizes_predict_the_third(pricer: Pricer, known: KnownLaw, table: Path, slots: int) -> None:
    """Memory of a third table, at another number of slots too, is met within a few percent."""
    predicted = known.law.price(KEYS, KEYS * PAIRS_PER_KEY, slots)
    measured = pricer.measure(table, slots)
    assert measured.anon_bytes > 50 * MIB * slots
    assert abs(predicted.anon_bytes / measured.anon_bytes - 1) < MOST_OFF
    assert abs(predicted.peak_bytes / measured.peak_bytes - 1) < MOST_OFF


def test_the_default_law_is_that_of_this_engine(known: KnownLaw) -> None:
    """Where this fails, an engine keeps its tables otherwise than those that the default was measured on."""
    ours, default = (law.price(KEYS, KEYS * PAIRS_PER_KEY) for law in (known.law, DEFAULT))
    assert abs(default.anon_bytes / ours.anon_bytes - 1) < MOST_OFF
    assert known.calibrated


def test_an_engine_is_calibrated_once(pricer: Pricer, known: KnownLaw) -> None:
    """The second time the kept law is given, without a start; `again` measures it anew."""
    started: list[str] = []
    assert pricer.calibrate(say=started.append) == known
    assert started == []
    assert pricer.calibrate(again=True, say=started.append).calibrated
    assert len(started) == 3


def test_a_calibration_is_of_one_build(pricer: Pricer, known: KnownLaw) -> None:
    """What is kept names the engine and the date, and what was measured, so that it can be judged."""
    kept = msgspec.json.decode(pricer.path.read_bytes(), type=Kept)
    assert kept.engine
    assert kept.measured in known.source
    assert [(sample.keys, sample.pairs) for sample in kept.samples] == [(50_000, 50_000), (100_000, 600_000)]


def test_samples_that_say_nothing_are_not_kept(pricer: Pricer, known: KnownLaw) -> None:
    """A file in which tables cost nothing is no calibration: it is said, and the default law holds."""
    good = pricer.path.read_bytes()
    kept = msgspec.json.decode(good, type=Kept)
    free = tuple(replace(sample, price=replace(sample.price, anon_bytes=0)) for sample in kept.samples)
    said: list[str] = []
    other = Pricer(pricer._factory, pricer._cache, warn=said.append)
    try:
        pricer.path.write_bytes(msgspec.json.encode(msgspec.structs.replace(kept, samples=free)))
        assert not other.known().calibrated
    finally:
        pricer.path.write_bytes(good)
    assert "says nothing of use" in said[0]


def test_a_table_that_the_engine_dies_of_is_an_error(pricer: Pricer, tmp_path: Path) -> None:
    """Its end is explained as any other, and no server is left."""
    broken = tmp_path / "broken.lcs"
    broken.write_bytes(encode(count_bigrams([[1, 2, 3]]))[:-4])
    with pytest.raises(EngineError) as caught:
        pricer.measure(broken, 1)
    assert "SIGABRT" in str(caught.value)


def test_ctrl_c_ends_the_server(
    table: Path, session_cache: Path, wait_for: Callable[..., None], assert_gone: Callable[..., None]
) -> None:
    """A price that is stopped while a server runs leaves none behind, nor a file."""
    command = [sys.executable, "-m", "pytest_ngram.cli", "table", "price", str(table), "--recalibrate"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        servers: list[psutil.Process] = []

        def has_started() -> bool:
            servers[:] = psutil.Process(process.pid).children(recursive=True)
            return bool(servers)

        wait_for(has_started)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "stopped by Ctrl-C" in said
    assert_gone(*(server.pid for server in servers))
    assert not list((session_cache / "prices").glob("*.tmp"))
