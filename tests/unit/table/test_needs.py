"""What a run's tables need: by the calibrated law where there is one, and never in the engine's way."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import EngineChoice
from pytest_ngram.table.build.needs import TableNeeds
from pytest_ngram.table.build.pricing import CALIBRATION_VERSION, Kept, Pricer
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import encode
from pytest_ngram.table.price import DEFAULT, Law, Rate, Sample

LAW = Law(Rate(1000.0, 100.0), Rate(2000.0, 100.0), Rate(0.0, 0.0))
COUNTS = count_bigrams([[1, 2, 3], [1, 2, 3], [1, 2, 4], [5, 6, 7]])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two keys, three pairs."""
    (tmp_path / "chats.lcs").write_bytes(encode(COUNTS))
    return tmp_path / "chats.lcs"


@pytest.fixture
def factory(tmp_path: Path) -> Factory:
    return Factory(EngineChoice("embedded"), cache_dir=tmp_path)


def calibrate(factory: Factory, cache: Path) -> None:
    """Keep what an engine that obeys `LAW` would have shown."""
    path = Pricer(factory, cache).path
    path.parent.mkdir()
    samples = tuple(
        Sample(n, n * per_key, LAW.price(n, n * per_key)) for n, per_key in ((1000, 1), (2000, 6))
    )
    path.write_bytes(msgspec.json.encode(Kept(CALIBRATION_VERSION, "this one", "2026-01-02", samples)))


def test_the_default_law_is_used_and_named(table: Path, factory: Factory, tmp_path: Path) -> None:
    """Without a calibration the price is the default's, and says where that is from."""
    need = TableNeeds(factory, tmp_path, warn=pytest.fail)(table, 2)
    assert need is not None
    assert (need.name, need.keys, need.pairs, need.slots) == ("chats.lcs", 2, 3, 2)
    assert need.price == DEFAULT.price(2, 3, 2)
    assert "not calibrated" in need.source


def test_a_calibration_takes_its_place(table: Path, factory: Factory, tmp_path: Path) -> None:
    """Once `table price` has measured the engine, runs go by that; the larger of rest and peak counts."""
    calibrate(factory, tmp_path)
    need = TableNeeds(factory, tmp_path, warn=pytest.fail)(table, 2)
    assert need is not None
    assert need.price.anon_bytes == pytest.approx(2 * (2 * 1000 + 3 * 100), abs=2)
    assert need.price.need_bytes == pytest.approx(2 * (2 * 2000 + 3 * 100), abs=2)
    assert need.source == "calibrated on this engine, 2026-01-02"


def test_the_advice_is_the_pruning_that_fits(table: Path, factory: Factory, tmp_path: Path) -> None:
    """In the words of `table build`, with what would be left; or that nothing would."""
    need = TableNeeds(factory, tmp_path, warn=pytest.fail)(table, 1)
    assert need is not None
    one = DEFAULT.price(1, 1).need_bytes
    assert need.advice(one).startswith(
        "build the table with --top-k 4 --min-total 2, which leaves 1 keys and 1 pairs"
    )
    assert need.advice(one - 1) == "no pruning of the table would fit"


@pytest.mark.parametrize("data", [b"", encode(COUNTS)[:-4], None], ids=["empty", "cut", "missing"])
def test_what_is_no_table_has_no_price(
    table: Path, factory: Factory, tmp_path: Path, data: bytes | None
) -> None:
    """Gates give an engine broken tables on purpose: what it makes of them is its own to say."""
    if data is None:
        table.unlink()
    else:
        table.write_bytes(data)
    assert TableNeeds(factory, tmp_path, warn=pytest.fail)(table, 1) is None


def test_a_table_is_read_once_until_it_changes(table: Path, factory: Factory, tmp_path: Path) -> None:
    """Each start asks again; the file is read again only if its size or time is another."""
    needs = TableNeeds(factory, tmp_path, warn=pytest.fail)
    first, stat = needs(table, 1), table.stat()
    assert first is not None
    table.write_bytes(b"\0" * stat.st_size)
    os.utime(table, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    again = needs(table, 1)
    assert again is not None
    assert again.price == first.price
    table.write_bytes(encode(count_bigrams([[1, 2, 3]])))
    changed = needs(table, 1)
    assert changed is not None
    assert (changed.keys, changed.pairs) == (1, 1)
