"""Cells and records to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import PlannedCell, plan
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.record import Outcome, Record, Server

MATRIX = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf}
configs:
  none: {}
  mtp1: {types: [draft-mtp]}
  ngram-cache: {types: [ngram-cache]}
prompt_sets:
  chat: {path: chat.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 8}
"""


@pytest.fixture
def matrix() -> MatrixSpec:
    return decode_matrix(MATRIX, "m.yaml")


@pytest.fixture
def cells(matrix: MatrixSpec) -> list[PlannedCell]:
    return plan(matrix, "smoke", {"chat": ["p", "q"]})


@pytest.fixture
def record_of() -> Callable[..., Record]:
    def make(planned: PlannedCell, status: Any = "ok", serial: int = 1) -> Record:
        return Record(
            cell=planned.cell,
            model=None,
            engine=None,
            server=Server(serial=serial, answered=0),
            rounds=(),
            memory=None,
            host=None,
            table=None,
            outcome=Outcome(status=status),
        )

    return make
