"""The cells of the matrix: one test each, measured on a running server and recorded by pytest-benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ngram.measure.clock import CLOCK

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_ngram.measure.cell import CellRun


@pytest.mark.benchmark(timer=CLOCK)
def test_cell(ngram_cell: CellRun, benchmark: BenchmarkFixture) -> None:
    """Each request of the cell succeeds, and its seconds per generated token are what is recorded."""
    benchmark.pedantic(ngram_cell.request, rounds=ngram_cell.rounds)
