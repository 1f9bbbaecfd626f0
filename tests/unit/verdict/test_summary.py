"""The summary: each number is what its definition says, and what is unknown stays unknown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_ngram.record import Cell, Host, Memory, Outcome, Record, Round
from pytest_ngram.verdict.summary import ModelSummary, Row, seconds_per_token, summarise


def a_round(**changes: Any) -> Round:
    fields: dict[str, Any] = {
        "status": "ok",
        "seed": 1,
        "tokens": None,
        "text_sha256": None,
        "prompt_n": 10,
        "prompt_ms": 100.0,
        "predicted_n": 11,
        "predicted_ms": 1000.0,
        "wall_s": 1.2,
        "drafted": 0,
        "accepted": 0,
        "steps": 10,
        "verify_steps": 0,
        "replays": 0,
        "accepted_per_pos": (),
        "n_decode": 11,
        "stop": "limit",
    }
    return Round(**{**fields, **changes})


def a_record(
    config: str, prompt: str = "p", block: int = 1, status: Any = "ok", **round_changes: Any
) -> Record:
    pass_ = round_changes.pop("pass_", "first")
    temperature = round_changes.pop("temperature", 0.0)
    rounds = (a_round(**round_changes),) if status == "ok" else ()
    return Record(
        cell=Cell(
            model="m",
            config=config,
            prompt=prompt,
            prompt_set="s",
            temperature=temperature,
            block=block,
            pass_=pass_,
            position=0,
        ),
        model=None,
        engine=None,
        server=None,
        rounds=rounds,
        memory=Memory(rss_anon_mb=10.0, rss_file_mb=5.0, rss_peak_mb=None, majflt=None),
        host=None,
        table=None,
        outcome=Outcome(status=status, reason=None if status == "ok" else "because"),
    )


def only(records: list[Record]) -> ModelSummary:
    (summary,) = summarise(records)
    return summary


def row_of(records: list[Record], config: str) -> Row:
    (row,) = [row for row in only(records).rows if row.config == config]
    return row


@pytest.mark.parametrize(
    ("predicted_n", "predicted_ms", "expected"),
    [(11, 1000.0, 0.1), (2, 50.0, 0.05), (1, 50.0, None), (0, 0.0, None), (None, 1.0, None), (5, None, None)],
)
def test_seconds_per_token_leaves_out_the_first(
    predicted_n: int | None, predicted_ms: float | None, expected: float | None
) -> None:
    """predicted_ms / (predicted_n - 1); one token or none cannot be timed."""
    got = seconds_per_token(a_round(predicted_n=predicted_n, predicted_ms=predicted_ms))
    assert got == (None if expected is None else pytest.approx(expected))


def test_tg_weighs_prompts_alike() -> None:
    """tg is 1 / mean seconds per token over prompts: 0.1 and 0.3 s give 5 t/s, whatever their lengths."""
    records = [a_record("none", "p"), a_record("none", "q", predicted_n=2, predicted_ms=300.0)]
    tg = row_of(records, "none").tg
    assert tg is not None
    assert tg.value == pytest.approx(5.0)


def test_spread_is_over_blocks() -> None:
    """low and high are those of the blocks' own tg, not of prompts."""
    records = [
        a_record("none", p, block=b, predicted_ms=ms)
        for b, p, ms in [(1, "p", 1000.0), (1, "q", 3000.0), (2, "p", 1000.0), (2, "q", 1000.0)]
    ]
    tg = row_of(records, "none").tg
    assert tg is not None
    assert (tg.low, tg.high, tg.blocks) == (pytest.approx(5.0), pytest.approx(10.0), 2)


def test_change_compares_only_what_both_measured() -> None:
    """A config that failed on the slow prompt does not look faster for it."""
    records = [
        a_record("none", "p"),
        a_record("none", "q", predicted_ms=9000.0),
        a_record("mtp1", "p", predicted_ms=800.0),
        a_record("mtp1", "q", status="crash"),
    ]
    row = row_of(records, "mtp1")
    assert row.change is not None
    assert row.change.value == pytest.approx(0.25)
    assert row.failed == {"crash": 1}
    assert row.cells == 2


def test_change_uses_the_mean_of_both_passes_of_none() -> None:
    """The baseline of a block is the mean of its first and last pass, and their gap is the noise."""
    records = [
        a_record("none", predicted_ms=900.0),
        a_record("none", predicted_ms=1100.0, pass_="last"),
        a_record("mtp1", predicted_ms=500.0),
    ]
    row = row_of(records, "mtp1")
    assert row.change is not None
    assert row.change.value == pytest.approx(1.0)
    assert only(records).noise == pytest.approx(1100 / 900 - 1)


def test_without_a_baseline_there_is_no_change() -> None:
    """No `none`, no percent."""
    assert row_of([a_record("mtp1")], "mtp1").change is None


def test_coverage_leaves_replays_out() -> None:
    """verify / (plain + verify): 10 steps of which 2 replays and 4 verify give 4 / 8."""
    row = row_of([a_record("x", steps=10, replays=2, verify_steps=4, drafted=20, accepted=5)], "x")
    assert row.coverage == pytest.approx(0.5)
    assert row.acceptance == pytest.approx(0.25)


def test_tokens_per_step_counts_all_steps() -> None:
    """Tokens after the first over all steps, so that the baseline's is exactly 1."""
    assert row_of([a_record("none")], "none").tokens_per_step == 1.0
    assert row_of([a_record("x", steps=4)], "x").tokens_per_step == pytest.approx(2.5)


def test_acceptance_is_pooled_over_tokens() -> None:
    """Accepted over drafted of all rounds, not the mean of ratios."""
    records = [a_record("x", "p", drafted=100, accepted=10), a_record("x", "q", drafted=2, accepted=2)]
    assert row_of(records, "x").acceptance == pytest.approx(12 / 102)


@pytest.mark.parametrize("field", ["drafted", "accepted", "verify_steps", "steps", "replays"])
def test_one_unknown_makes_the_sum_unknown(field: str) -> None:
    """A partial sum must not pass for a whole one: null in any round is null in the row."""
    records = [a_record("x", "p", drafted=4, accepted=2, verify_steps=2), a_record("x", "q", **{field: None})]
    row = row_of(records, "x")
    hit = {
        "drafted": [row.acceptance],
        "accepted": [row.acceptance],
        "verify_steps": [row.coverage],
        "steps": [row.coverage, row.tokens_per_step],
        "replays": [row.coverage],
    }
    assert hit[field] == [None] * len(hit[field])


def test_nothing_drafted_has_no_acceptance_and_no_coverage_to_speak_of() -> None:
    """0 of 0 is not 0: the acceptance is null, the coverage 0."""
    row = row_of([a_record("x")], "x")
    assert row.acceptance is None
    assert row.coverage == 0


def test_pp_and_rss() -> None:
    """Prompt tokens over prompt seconds; resident anonymous and file memory together."""
    row = row_of([a_record("none")], "none")
    assert row.pp == pytest.approx(100.0)
    assert row.rss_mb == pytest.approx(15.0)


def test_a_config_whose_cells_all_failed_has_a_row_without_numbers() -> None:
    """Failed cells show as such, never as a fast or a zero cell."""
    row = row_of([a_record("x", status="hang")], "x")
    assert row.tg is None
    assert row.failed == {"hang": 1}


def test_temperatures_are_told_apart() -> None:
    """A sampled text drafts otherwise than a greedy one: their numbers never stand in one row."""
    records = [a_record("none"), a_record("none", temperature=0.7, predicted_ms=2000.0)]
    cold, warm = summarise(records)
    assert (cold.temperature, warm.temperature) == (0.0, 0.7)
    assert [s.rows[0].tg and s.rows[0].tg.value for s in (cold, warm)] == pytest.approx([10.0, 5.0])
    assert (cold.prompts, warm.prompts) == (1, 1)


def test_a_prompt_that_failed_in_one_block_leaves_the_row_in_all() -> None:
    """A config as fast as `none` everywhere, whose slow prompt crashes in 2 of 3 blocks, is no faster."""
    slow = {"predicted_ms": 4000.0}
    records = [
        a_record(c, p, block=b, **(slow if p == "q" else {}))
        for c in ("none",)
        for p in "pq"
        for b in (1, 2, 3)
    ]
    records += [a_record("mtp1", "p", block=b) for b in (1, 2, 3)]
    records += [a_record("mtp1", "q", block=1, **slow)]
    records += [a_record("mtp1", "q", block=b, status="crash") for b in (2, 3)]
    row = row_of(records, "mtp1")
    assert row.tg is not None
    assert row.change is not None
    assert (row.tg.value, row.tg.low, row.tg.high) == pytest.approx((10.0, 10.0, 10.0))
    assert row.change.value == pytest.approx(0.0)
    assert (row.prompts, row.prompts_of_change, only(records).prompts) == (1, 1, 2)


def test_a_block_that_was_not_finished_is_left_out() -> None:
    """A run that was stopped in its last block tells of the whole blocks, over all prompts."""
    records = [a_record("none", p, block=b) for b in (1, 2) for p in "pq"] + [a_record("none", "p", block=3)]
    row = row_of(records, "none")
    assert row.tg is not None
    assert row.tg.blocks == 2
    assert row.prompts == 2


def test_all_numbers_of_a_row_are_of_the_same_cells() -> None:
    """Acceptance, pp and RSS are of the same cells as tg."""
    records = [
        a_record("mtp1", "p", drafted=10, accepted=9),
        a_record("mtp1", "q", block=1, drafted=10, accepted=0),
        a_record("mtp1", "p", block=2, drafted=10, accepted=9),
        a_record("mtp1", "q", block=2, status="crash"),
    ]
    assert row_of(records, "mtp1").acceptance == pytest.approx(0.9)


def test_contention_and_paging_are_counted() -> None:
    """Cells during which tasks waited for cores, or the model was read from disk, are told."""
    record = a_record("none")
    busy = msgspec.structs.replace(
        record,
        host=Host(
            cpu=None,
            cores=None,
            isa=None,
            load1=None,
            psi_cpu=25.0,
            cpu_busy=None,
            gpu_busy=None,
            vram_mb=None,
            temp_c=None,
            governor=None,
        ),
        memory=Memory(rss_anon_mb=None, rss_file_mb=None, rss_peak_mb=None, majflt=3),
    )
    summary = only([record, busy])
    assert (summary.contended, summary.paged) == (1, 1)


def test_an_inert_config_has_no_numbers() -> None:
    """Cells that were measured, and whose type never drafted, make neither a speed nor a change."""
    good = a_record("ngram-mod", "p")
    inert = msgspec.structs.replace(good, outcome=Outcome(status="inert", reason="never drafted"))
    row = row_of([a_record("none"), inert], "ngram-mod")
    assert (row.tg, row.change, row.acceptance, row.pp, row.rss_mb) == (None,) * 5
    assert row.failed == {"inert": 1}
    assert row.abstained is None


def test_an_expected_abstention_keeps_its_numbers() -> None:
    """What it costs to decline is what it was measured for; the row says why nothing was drafted."""
    good = a_record("ngram-mod", "p")
    expected = msgspec.structs.replace(good, outcome=Outcome(status="ok", reason="inert, as expected: why"))
    row = row_of([a_record("none"), expected], "ngram-mod")
    assert row.tg is not None
    assert row.change is not None
    assert row.abstained == "inert, as expected: why"
    assert row_of([a_record("none"), good], "ngram-mod").abstained is None


def test_prompts_out_of_a_corpus_are_in_no_row() -> None:
    """Echo prompts change no figure, and have rows of their own where they are asked for."""
    records = [a_record("none"), a_record("t", predicted_ms=1000.0)]
    echo = [
        replace(record, cell=replace(record.cell, prompt="e", prompt_set="echo"))
        for record in (a_record("none"), a_record("t", predicted_ms=1.0))
    ]
    assert summarise([*records, *echo]) == summarise(records)
    (own,) = summarise([*records, *echo], echo=True)
    assert [row.cells for row in own.rows] == [1, 1]
    assert own.rows[1].change is not None
    assert own.rows[1].change.value == pytest.approx(999)
