"""Runs for reports, made of a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_ngram.record import (
    Cell,
    Disturbance,
    Engine,
    Host,
    Memory,
    Model,
    Outcome,
    Record,
    Round,
    Run,
    Server,
    ServerStart,
    StepTime,
    Telemetry,
    TypeDrafts,
)
from pytest_ngram.record.telemetry import Cost
from pytest_ngram.report.page import Section, Shown
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records

ENGINE = Engine(
    kind="embedded",
    package="xllamacpp",
    version="1.2",
    build="b1",
    label=None,
    binary_sha256=None,
    argv=("-m", "/models/m.gguf", "--port", "0", "-t", "1"),
    spec_types=(),
    capabilities={},
)
MODEL = Model("m", "ab" * 32, "qwen35moe", 100_000_000, "cd" * 32, 16, None, 1)
HOST = Host(
    cpu="a processor",
    cores=2,
    isa=(),
    load1=None,
    psi_cpu=0.0,
    cpu_busy=None,
    gpu_busy=None,
    vram_mb=None,
    temp_c=None,
    governor=None,
)
TIMES = {"none": 1000.0, "mtp1": 700.0, "ngram-simple": 990.0}


def a_round(config: str, predicted_ms: float) -> Round:
    """101 tokens. `mtp1` drafts one token in each of 60 steps, of which 40 are accepted."""
    drafts = config == "mtp1"
    steps = 60 if drafts else 100
    width, ms = ("2", predicted_ms / 60) if drafts else ("1", predicted_ms / 100)
    telemetry = Telemetry(
        step_ms_by_width={width: StepTime(n=steps, mean_ms=ms)},
        cost=Cost(0.1, ms, 0.0, 0.0, 0.0, "alone"),
    )
    return Round(
        status="ok",
        seed=1,
        tokens=None,
        text_sha256=None,
        prompt_n=10,
        prompt_ms=100.0,
        predicted_n=101,
        predicted_ms=predicted_ms,
        wall_s=1.2,
        drafted=60 if drafts else 0,
        accepted=40 if drafts else 0,
        steps=steps,
        verify_steps=60 if drafts else 0,
        replays=0,
        accepted_per_pos=(40,) if drafts else (),
        n_decode=None,
        stop="limit",
        by_type={"draft-mtp": TypeDrafts(60, 60, 60, 40)} if drafts else {},
        telemetry=telemetry,
    )


def a_record(config: str, prompt: str, block: int, pass_: Any, **changes: Any) -> Record:
    """A cell; prompts and blocks differ a little, as they do."""
    wave = 1 + 0.002 * ((block * 7 + len(config + prompt) * 3 + (pass_ == "last")) % 5)
    serial = 10 * block + len(config) + (pass_ == "last")
    record = Record(
        cell=Cell("m", config, prompt, "s", 0.0, block, pass_, 0),
        model=MODEL,
        engine=ENGINE,
        server=Server(serial, 0 if prompt == "p1" else 1),
        rounds=(a_round(config, TIMES.get(config, 1000.0) * wave),),
        memory=Memory(rss_anon_mb=10.0, rss_file_mb=5.0, rss_peak_mb=16.0, majflt=0),
        host=HOST,
        table=None,
        disturbance=Disturbance(),
        outcome=Outcome("ok"),
    )
    return replace(record, **changes)


def failed(record: Record, status: Any = "crash", reason: str = "the server died", *log: str) -> Record:
    """The same cell, ended badly."""
    return replace(record, rounds=(), outcome=Outcome(status, reason, log))


def grid(*configs: str, blocks: int = 3, prompts: Sequence[str] = ("p1", "pr2")) -> list[Record]:
    """Cells of all configs; `none` has both passes."""
    return [
        a_record(config, prompt, block, pass_)
        for block in range(1, blocks + 1)
        for config in configs
        for pass_ in (("first", "last") if config == "none" else ("first",))
        for prompt in prompts
    ]


def shown_of(records: Sequence[Record], sections: Sequence[Section] = (), *, run: bool = True) -> Shown:
    """What a report is of, with a start for each config."""
    configs = list(dict.fromkeys(record.cell.config for record in records))
    starts = tuple(
        ServerStart(n, "m", config, 0.0, 1, "first", 0.5 + n, 0.1) for n, config in enumerate(configs)
    )
    return Shown(
        records=records,
        verdict=judge(from_records(records), config_order=configs),
        run=Run(
            version="1",
            profile="smoke",
            matrix_sha256="ef" * 32,
            seed=1,
            order=(),
            starts=starts,
            wall_s=12.0,
            planned_cells=len(records),
            measured_cells=len(records),
            resumed_from=None,
            resumed_cells=0,
        )
        if run
        else None,
        config_order=configs,
        sections=sections,
    )


@pytest.fixture(scope="session")
def failed_of() -> Callable[..., Record]:
    """`failed_of(record, status, reason, *log)` makes a cell that ended badly."""
    return failed


@pytest.fixture(scope="session")
def cells_of() -> Callable[..., list[Record]]:
    """`cells_of(*configs, blocks, prompts)` makes a full grid."""
    return grid


@pytest.fixture(scope="session")
def shown() -> Callable[..., Shown]:
    """`shown(records, sections, run)` makes what a report is of."""
    return shown_of
