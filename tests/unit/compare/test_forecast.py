"""The forecast: what steps cost by the curve, and what shorter drafts would have brought."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_ngram.errors import OptionError
from pytest_ngram.record import (
    Record,
    RunData,
    StepTime,
    Telemetry,
    TypeDrafts,
    pack_tokens,
)
from pytest_ngram.report.compare import foreseen_lines
from pytest_ngram.reports.forecast_files import read_curve, read_replay
from pytest_ngram.verdict.curve import Curve, Point, Series
from pytest_ngram.verdict.forecast import Steps, forecasts, foresee, shared_out, steps_of, trace_of

Make = Callable[..., RunData]
Change = Callable[[RunData, Callable[[Record], Record]], RunData]


def series(*ratios: tuple[int, float], draft: float = 0.0) -> Series:
    return Series(tuple(Point(w, 1, r, r, r, r) for w, r in ratios), draft)


def steps(**changes: Any) -> Steps:
    fields: dict[str, Any] = {
        "setting": "x",
        "drafter": "draft-mtp",
        "source": "measured",
        "verify": {4: 10},
        "replays": {},
        "plain": 0,
        "tokens": 34,
        "drafted": 30,
        "accepted": 24,
    }
    return Steps(**{**fields, **changes})


def test_the_worked_example() -> None:
    """As the docstring has it: a ceiling of 2.125, and a speed-up of 34 ÷ 19."""
    found = foresee(steps(), series((4, 1.6), draft=0.1), plain_tg=10.0)
    assert found.ceiling == pytest.approx(2.125)
    assert found.speed_up == pytest.approx(34 / 19)
    assert found.tg == pytest.approx(340 / 19)
    assert (found.acceptance, found.coverage, found.tokens_per_step) == (0.8, 1.0, 3.4)


def test_replays_cost_decodes_and_no_drafting() -> None:
    """Two replays of 2 tokens at 1.2 plain steps beside the ten verify steps."""
    found = foresee(steps(replays={2: 2}, tokens=36), series((2, 1.2), (4, 1.6), draft=0.1), None)
    assert found.ceiling == pytest.approx(36 / (16 + 2.4))
    assert found.speed_up == pytest.approx(36 / (16 + 2.4 + 3))
    assert found.tg is None


@given(st.floats(1.0, 4.0), st.floats(0.0, 0.5), st.integers(0, 30))
def test_nothing_is_above_its_ceiling(ratio: float, draft: float, accepted: int) -> None:
    """The ceiling is what drafting for nothing would give, so no speed-up is above it."""
    found = foresee(steps(accepted=accepted, tokens=10 + accepted), series((4, ratio), draft=draft), 1.0)
    assert found.speed_up is not None
    assert found.ceiling is not None
    assert found.speed_up <= found.ceiling + 1e-9


def test_a_width_outside_of_the_curve_is_not_guessed() -> None:
    """A curve up to 4 tokens says nothing of 9, and one of look-ups nothing of MTP."""
    wide = foresee(steps(verify={9: 1}), series((4, 1.6)), 1.0)
    assert wide.speed_up is None
    assert wide.why is not None
    assert (wide.why.code, wide.why.values) == ("outside-curve", {"width": 9})
    none = foresee(steps(), None, 1.0)
    assert none.why is not None
    assert none.why.code == "no-curve"


@given(st.integers(1, 50), st.integers(0, 500))
def test_sharing_out_keeps_the_sums(n: int, drafted: int) -> None:
    """As many steps and as many drafted tokens as there were, in at most two neighbouring widths."""
    widths = shared_out(n, drafted)
    assert sum(widths.values()) == n
    assert sum((width - 1) * count for width, count in widths.items()) == drafted
    assert max(widths) - min(widths) <= 1
    assert shared_out(0, 0) == {}


def traced(record: Record, *lines: tuple[int, int, int]) -> Record:
    """The record with a trace of (drafted, accepted, replay follows), and MTP as who drafted."""
    (round_,) = record.rounds
    drafted, accepted = sum(line[0] for line in lines), sum(line[1] for line in lines)
    packed = pack_tokens([number for line in lines for number in (1000, *line)])
    widths = {str(line[0] + 1): StepTime(n=1, mean_ms=14.0) for line in lines}
    assert round_.telemetry is not None
    told = replace(round_.telemetry, steps=packed, step_ms_by_width=widths)
    new = replace(
        round_,
        drafted=drafted,
        accepted=accepted,
        steps=len(lines),
        verify_steps=len(lines),
        predicted_n=len(lines) + accepted + 1,
        by_type={"draft-mtp": TypeDrafts(len(lines), len(lines), drafted, accepted)},
        telemetry=told,
    )
    return replace(record, rounds=(new,))


def test_a_shorter_draft_accepts_what_it_reaches(make_run: Make) -> None:
    """3, 1 and 0 of 3 accepted, cut to n_max 1: 1, 1 and 0 of 1. Five tokens where there were seven."""
    record = traced(make_run().records[-1], (3, 3, 0), (3, 1, 0), (3, 0, 0))
    whole, cut = (steps_of("x", "draft-mtp", record.rounds, n) for n in (None, 1))
    assert whole is not None
    assert cut is not None
    assert (whole.verify, whole.tokens, whole.accepted) == ({4: 3}, 7, 4)
    assert (cut.verify, cut.tokens, cut.drafted, cut.accepted) == ({2: 3}, 5, 3, 2)


def test_a_replay_is_no_verify_step(make_run: Make) -> None:
    """The line after a restored step repeats it: two steps, the first of them replayed."""
    record = traced(make_run().records[-1], (3, 1, 1), (1, 1, 0), (3, 3, 0))
    assert trace_of(record.rounds[0]) == [(3, 1, True), (3, 3, False)]


def test_a_request_without_a_trace_is_not_foreseen(make_run: Make) -> None:
    """Null, not a part of the requests."""
    (round_,) = make_run().records[-1].rounds
    assert steps_of("x", "draft-mtp", [replace(round_, telemetry=Telemetry())]) is None


def a_traced_run(make_run: Make, change_cells: Change) -> RunData:
    """`none`, and `mtp2` with n_max 3 in truth: n_max 1 and 2 were not measured."""

    def trace(record: Record) -> Record:
        if record.cell.config == "none":
            (round_,) = record.rounds
            assert round_.telemetry is not None
            told = replace(round_.telemetry, step_ms_by_width={"1": StepTime(n=40, mean_ms=10.0)})
            return replace(record, rounds=(replace(round_, telemetry=told),))
        return traced(record, (3, 3, 0), (3, 1, 0), (3, 2, 0))

    return change_cells(make_run(configs=("none", "mtp2")), trace)


def test_settings_that_were_not_measured(make_run: Make, change_cells: Change) -> None:
    """Of MTP measured with n_max 3 the smaller ones are foreseen; what was measured stands beside."""
    (model,) = forecasts(a_traced_run(make_run, change_cells).records)
    told = {each.setting: each for each in model.settings}
    assert list(told) == [
        "mtp2",
        "draft-mtp n_max 1, from mtp2",
        "draft-mtp n_max 2, from mtp2",
    ]
    assert told["mtp2"].speed_up == pytest.approx(9 / (3 * 1.4))
    assert told["mtp2"].measured is not None
    assert told["draft-mtp n_max 2, from mtp2"].acceptance == pytest.approx(5 / 6)
    assert model.break_even["draft-mtp"][0].n_max == 1
    lines = foreseen_lines([model])
    assert any("n_max 2, from mtp2" in line for line in lines)


def test_replays_leave_shorter_drafts_open(make_run: Make, change_cells: Change) -> None:
    """How often a shorter draft has to be replayed is in no trace: nothing is made up."""

    def replayed(record: Record) -> Record:
        if record.cell.config == "none":
            return record
        new = traced(record, (3, 1, 1), (1, 1, 0), (3, 3, 0))
        (round_,) = new.rounds
        return replace(new, rounds=(replace(round_, replays=1, verify_steps=2),))

    run = change_cells(a_traced_run(make_run, change_cells), replayed)
    (model,) = forecasts(run.records)
    assert [each.setting for each in model.settings] == ["mtp2"]


ROW = {
    "stream": "m/t0",
    "policy": "ngram-simple:size_n=3",
    "table": None,
    "prompt": None,
    "generated": 100,
    "drafted": 40,
    "accepted": 30,
    "verify_steps": 10,
    "plain_steps": 60,
    "replays": 0,
    "tg": 1.0,
}


def test_a_replay_fills_the_forecast(make_run: Make, tmp_path: Path) -> None:
    """Its rows over all prompts are settings of that model and temperature; those of one prompt are not."""
    path = tmp_path / "replay.json"
    path.write_bytes(msgspec.json.encode({"schema": 1, "rows": [ROW, {**ROW, "prompt": "p"}]}))
    run = make_run()
    ((key, (found,)),) = read_replay(path, run).items()
    assert key == ("m", 0.0)
    assert (found.verify, found.plain, found.tokens) == ({5: 10}, 60, 100)
    curve = Curve(plain_ms=10.0, plain_n=1, blocks=1, series={"ngram": series((9, 3.0))})
    (model,) = forecasts(run.records, {"m": curve}, {key: [found]})
    (said,) = [each for each in model.settings if each.source == "replay"]
    assert said.speed_up == pytest.approx(100 / (60 + 10 * 2.0))


def test_files_of_another_model_or_host_are_refused(make_run: Make, tmp_path: Path) -> None:
    """A curve is of one model on one host; what is no curve is told as such."""
    run, path = make_run(), tmp_path / "curve.json"
    (model,) = {record.model for record in run.records}
    curve = Curve(plain_ms=10.0, plain_n=1, blocks=1, series={})
    good: dict[str, Any] = {
        "schema": 1,
        "model": model,
        "engine": None,
        "cpu": "cpu",
        "curve": curve,
        "break_even": {},
    }
    path.write_bytes(msgspec.json.encode(good))
    assert read_curve(path, run) == {"m": curve}
    assert model is not None
    for change, said in (
        ({"cpu": "another"}, "another processor"),
        ({"model": replace(model, sha256="9" * 64)}, "another model"),
        ({"curve": 3}, "cannot be read"),
    ):
        path.write_bytes(msgspec.json.encode({**good, **change}))
        with pytest.raises(OptionError, match=said):
            read_curve(path, run)
    path.write_bytes(msgspec.json.encode({"rows": [{**ROW, "stream": "x/t0"}]}))
    with pytest.raises(OptionError, match="another model"):
        read_replay(path, run)
