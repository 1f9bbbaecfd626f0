"""The simulation of `perf/verdict.py`, with a tenth of its runs: the verdict is right as often as it says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "perf" / "verdict.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("perf_verdict", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_coverage_false_alarms_power_and_blocks_asked_for(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Coverage 93 to 97 %, false alarms at most 5 %, power as stated, and the blocks asked for do tell."""
    assert script.main(["--quick"]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    for table in ("coverage of 95 % intervals", "false alarms:", "power:", "more blocks:"):
        assert table in printed


def test_the_simulation_can_fail(script: ModuleType) -> None:
    """An interval that is half as wide, and blocks that repeat each other, miss the goal that it checks."""
    assert not script.within(0.82, *script.COVERAGE, 300)
    assert not script.within(0.15, 0.0, script.FALSE_ALARMS, 100)
    assert script.within(0.95, *script.COVERAGE, 300)
