"""Runs to compare, made of a few numbers: what a server of this kind would have answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_ngram.record import (
    Cell,
    Cost,
    Engine,
    Host,
    Memory,
    Model,
    Outcome,
    Prompt,
    Record,
    Round,
    RunData,
    Server,
    Telemetry,
    pack_tokens,
)

TYPES = {"none": (), "mtp1": ("draft-mtp",), "mtp2": ("draft-mtp",), "ngram-cache": ("ngram-cache",)}
PLAIN_MS, VERIFY_MS = 10.0, 14.0


def a_round(*, drafts: bool, tokens: int = 40, accepted: int = 16, slower: float = 1.0) -> Round:
    """A request: `tokens` after the first, `accepted` of them drafted. With drafts there is no plain step."""
    verify = tokens - accepted if drafts else 0
    accepted = accepted if drafts else 0
    plain = tokens - verify - accepted
    verify_ms, plain_ms = verify * VERIFY_MS * slower, plain * PLAIN_MS * slower
    return Round(
        status="ok",
        seed=1,
        tokens=pack_tokens(range(tokens + 1)),
        text_sha256="ab",
        prompt_n=20,
        prompt_ms=100.0,
        predicted_n=tokens + 1,
        predicted_ms=verify_ms + plain_ms,
        wall_s=1.0,
        drafted=verify,
        accepted=accepted,
        steps=plain + verify,
        verify_steps=verify,
        replays=0,
        accepted_per_pos=(accepted,) if drafts else (),
        n_decode=None,
        stop="limit",
        telemetry=Telemetry(
            cost=Cost(
                draft_ms=0.0,
                verify_ms=verify_ms / tokens,
                replay_ms=0.0,
                plain_ms=plain_ms / tokens,
                rest_ms=0.0,
                plain_from="alone",
            )
        ),
    )


def a_record(
    config: str, block: int, prompt: str, pass_: Any, *, slower: float = 1.0, **fields: Any
) -> Record:
    """A cell of the model `m`."""
    types = TYPES[config]
    drafts = fields.pop("drafts", bool(types))
    argv: tuple[str, ...] = ("-c", "4096", "-m", "/models/m.gguf", "--port", "0", "-t", "1")
    argv += ("--spec-type", ",".join(types)) if types else ()
    argv += ("--spec-draft-n-max", config[3:]) if config.startswith("mtp") else ()
    return Record(
        cell=Cell(
            model="m",
            config=config,
            prompt=prompt,
            prompt_set="s",
            temperature=0.0,
            block=block,
            pass_=pass_,
            position=0,
        ),
        model=Model(
            name="tiny",
            sha256="1" * 64,
            arch="a",
            size_bytes=1,
            vocab_sha256="2" * 64,
            n_layer=1,
            n_expert=None,
            nextn=1,
        ),
        engine=Engine(
            kind="binary",
            package=None,
            version="1",
            build="b1",
            label=None,
            binary_sha256="3" * 64,
            argv=argv,
            spec_types=("draft-mtp", "ngram-cache"),
            capabilities={"metrics": True},
        ),
        server=Server(serial=1, answered=0),
        rounds=(a_round(drafts=drafts, slower=slower, **fields),),
        memory=Memory(rss_anon_mb=100.0, rss_file_mb=50.0, rss_peak_mb=None, majflt=0),
        host=Host(
            cpu="cpu",
            cores=4,
            isa=("avx2",),
            load1=0.0,
            psi_cpu=0.0,
            cpu_busy=0.5,
            gpu_busy=None,
            vram_mb=None,
            temp_c=None,
            governor=None,
        ),
        table=None,
        outcome=Outcome(status="ok"),
    )


def a_run(
    name: str = "run.json",
    *,
    configs: tuple[str, ...] = ("none", "mtp1"),
    blocks: int = 3,
    prompts: tuple[str, ...] = ("p", "q"),
    slower: Mapping[str, float] | None = None,
    **fields: Any,
) -> RunData:
    """A run in which each block is a little slower than the one before, the baseline's last pass too."""
    speeds = slower or {}
    records = []
    for block in range(1, blocks + 1):
        for config in configs:
            for pass_ in ("first", "last") if config == "none" else ("first",):
                own = speeds.get(config, 1.0) * (1 + block / 1000) * (1.001 if pass_ == "last" else 1.0)
                more = fields if config != "none" else {k: v for k, v in fields.items() if k == "tokens"}
                records += [a_record(config, block, p, pass_, slower=own, **more) for p in prompts]
    return RunData(
        name=name,
        version="0",
        profile="smoke",
        matrix_sha256="4" * 64,
        seed=1,
        records=tuple(records),
        starts=(),
        prompts=tuple(
            Prompt(model="m", prompt=p, prompt_set="s", tokens=pack_tokens([1, 2, len(p)])) for p in prompts
        ),
    )


def changed(run: RunData, change: Callable[[Record], Record]) -> RunData:
    """The run with every cell changed."""
    return replace(run, records=tuple(change(record) for record in run.records))


@pytest.fixture
def make_run() -> Callable[..., RunData]:
    """`make_run(configs=…, slower={"mtp1": 1.1})`: a saved run of the model `m`."""
    return a_run


@pytest.fixture
def change_cells() -> Callable[[RunData, Callable[[Record], Record]], RunData]:
    """`change_cells(run, change)`: the run with every cell changed."""
    return changed
