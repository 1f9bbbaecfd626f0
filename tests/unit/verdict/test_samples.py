"""Records to samples: what a verdict takes from a cell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_ngram.record import Cell, Engine, Host, Memory, Outcome, Prompt, Record, Round, Table
from pytest_ngram.verdict.samples import from_records

HOST = Host(
    cpu=None,
    cores=4,
    isa=None,
    load1=None,
    psi_cpu=0.0,
    cpu_busy=None,
    gpu_busy=None,
    vram_mb=None,
    temp_c=None,
    governor=None,
)
ROUND = Round(
    status="ok",
    seed=1,
    tokens=None,
    text_sha256=None,
    prompt_n=20,
    prompt_ms=100.0,
    predicted_n=11,
    predicted_ms=1000.0,
    wall_s=1.2,
    drafted=0,
    accepted=0,
    steps=10,
    verify_steps=0,
    replays=0,
    accepted_per_pos=(),
    n_decode=11,
    stop="limit",
)
ENGINE = Engine(
    kind="embedded",
    package=None,
    version=None,
    build=None,
    label=None,
    binary_sha256=None,
    argv=("-c", "4096", "--port", "8123", "--spec-type", "ngram-cache", "-lcs", "/t.lcs", "-t", "4"),
    spec_types=("ngram-cache",),
    capabilities={},
)
RECORD = Record(
    cell=Cell(
        model="m",
        config="t",
        prompt="p",
        prompt_set="general",
        temperature=0.0,
        block=2,
        pass_="first",
        position=1,
    ),
    model=None,
    engine=ENGINE,
    server=None,
    rounds=(ROUND,),
    memory=Memory(rss_anon_mb=10.0, rss_file_mb=5.0, rss_peak_mb=None, majflt=None),
    host=HOST,
    table=Table(sha256="ab", keys=1, pairs=1, bytes=1),
    outcome=Outcome(status="ok"),
)


def test_a_record_becomes_a_sample() -> None:
    """1000 ms for 10 steps, 100 ms for 20 prompt tokens, anonymous and file memory together."""
    (sample,) = from_records(
        [RECORD], [Prompt(model="m", prompt="p", prompt_set="general", tokens="", kind="code")]
    )
    assert (sample.model, sample.config, sample.prompt, sample.block, sample.pass_) == (
        "m",
        "t",
        "p",
        2,
        "first",
    )
    assert (sample.seconds, sample.tokens) == (pytest.approx(0.1), 11)
    assert sample.prompt_seconds == pytest.approx(0.005)
    assert sample.rss_mb == 15.0
    assert sample.strata == ("general", "general/code")
    assert (sample.types, sample.table) == (frozenset({"ngram-cache"}), "ab")
    assert sample.usable


def test_a_prompt_of_no_known_kind_is_of_its_set() -> None:
    """Runs that were saved before kinds were kept have the sets apart."""
    old = Prompt(model="m", prompt="p", prompt_set="general", tokens="")
    assert from_records([RECORD], [old])[0].strata == from_records([RECORD])[0].strata == ("general",)


def test_what_differs_between_starts_anyway_is_no_flag() -> None:
    """Port, table and types are left out, so that a config with a table finds the same without."""
    (sample,) = from_records([RECORD])
    assert sample.flags == ("-c", "4096", "-t", "4")


def test_a_prompt_out_of_the_corpus_is_no_sample() -> None:
    """Echo prompts are in no verdict."""
    assert from_records([replace(RECORD, cell=replace(RECORD.cell, prompt_set="echo"))]) == []


def test_rounds_are_averaged_and_one_unknown_makes_it_unknown() -> None:
    """A mean of some rounds must not pass for that of all."""
    twice = replace(RECORD, rounds=(ROUND, replace(ROUND, predicted_ms=3000.0)))
    assert from_records([twice])[0].seconds == pytest.approx(0.2)
    unknown = replace(RECORD, rounds=(ROUND, replace(ROUND, predicted_ms=None)))
    assert from_records([unknown])[0].seconds is None
    assert not from_records([unknown])[0].usable


def test_a_failed_cell_is_a_sample_that_does_not_enter() -> None:
    """It is counted by its outcome."""
    (sample,) = from_records([replace(RECORD, rounds=(), outcome=Outcome(status="oom", reason="killed"))])
    assert (sample.status, sample.seconds, sample.usable) == ("oom", None, False)


def test_pressure_tells_where_nothing_else_does() -> None:
    """A record without a judgement of its own is contended from the pressure that summaries count."""
    (sample,) = from_records([replace(RECORD, host=replace(HOST, psi_cpu=25.0))])
    assert sample.disturbed == "contended"
    assert from_records([replace(RECORD, host=None)])[0].disturbed is None


class Disturbance(msgspec.Struct, frozen=True):
    contended: tuple[str, ...] = ()
    throttled: tuple[str, ...] = ()


class Judged(Record, frozen=True, kw_only=True):
    disturbance: Disturbance | None = None


@pytest.mark.parametrize(
    ("found", "disturbed"),
    [
        (Disturbance(), None),
        (Disturbance(contended=("others took 30 %",)), "contended"),
        (Disturbance(throttled=("slowed down",)), "throttled"),
        (Disturbance(contended=("a",), throttled=("b",)), "contended"),
    ],
)
def test_a_record_that_was_judged_tells_by_its_judgement(found: Disturbance, disturbed: str | None) -> None:
    """What was seen during the cell's own requests goes before the kernel's average of 10 s."""
    fields: dict[str, Any] = msgspec.structs.asdict(RECORD)
    judged = Judged(**{**fields, "host": replace(HOST, psi_cpu=25.0), "disturbance": found})
    assert from_records([judged])[0].disturbed == disturbed
