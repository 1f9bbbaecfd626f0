"""Cells and records to keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import PlannedCell, plan
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.sysfs import Machine
from pytest_ngram.record import Outcome, Record, Server

HOSTS = Path(__file__).parents[3] / "fixtures" / "hosts"
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


@pytest.fixture
def host_of(tmp_path: Path) -> Callable[[str], Machine]:
    """`host_of(name)` is a machine of `fixtures/hosts`, its files below a folder of this test."""

    def unpack(name: str) -> Machine:
        files = yaml.safe_load((HOSTS / f"{name}.yaml").read_text(encoding="utf-8"))
        for path, content in files.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{content.strip()}\n", encoding="utf-8")
        return Machine(tmp_path / name)

    return unpack
