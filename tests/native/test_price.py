"""The price of a table on a native llama-server: predicted from two sizes, right for a third."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.table.build.pricing import Pricer, made_table
from pytest_ngram.table.format import encode

KEYS, PAIRS_PER_KEY = 150_000, 3
MOST_OFF = 0.06  # as in tests/process/test_pricing.py


@pytest.mark.parametrize("slots", [1, 2])
def test_two_sizes_predict_the_third(program: Path, cache_dir: Path, tmp_path: Path, slots: int) -> None:
    """Memory of a third table is met within a few percent, at another number of slots too."""
    table = tmp_path / "third.lcs"
    table.write_bytes(encode(made_table(KEYS, PAIRS_PER_KEY)))
    pricer = Pricer(Factory(choose(str(program)), cache_dir=cache_dir), cache_dir)
    predicted = pricer.calibrate().law.price(KEYS, KEYS * PAIRS_PER_KEY, slots)
    measured = pricer.measure(table, slots)
    assert abs(predicted.anon_bytes / measured.anon_bytes - 1) < MOST_OFF
    assert abs(predicted.peak_bytes / measured.peak_bytes - 1) < MOST_OFF
