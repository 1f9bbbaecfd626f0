"""Known issues hold both ways: told where one is there, where it is gone, and where nothing can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fault_proxy import Fault, Heard, everywhere

from pytest_ngram.evidence import clean_stop
from pytest_ngram.evidence.reproductions import PAST, PHRASES
from pytest_ngram.evidence.room import GateRoom
from pytest_ngram.judge.types import Verdict
from pytest_ngram.matrix.gates import GateCase

MakeRoom = Callable[..., GateRoom]
PAST_THE_END = "accepted-past-the-end"


def _no_drafts(answer: dict[str, Any], heard: Heard) -> None:
    for name in ("draft_n", "draft_n_accepted"):
        answer["timings"].pop(name, None)


def _steady_drafts(answer: dict[str, Any], heard: Heard) -> None:
    answer["timings"]["draft_n"] = 21


def _clipped(answer: dict[str, Any], heard: Heard) -> None:
    timings = answer["timings"]
    if "draft_n_accepted" in timings:
        timings["draft_n_accepted"] = min(timings["draft_n_accepted"], len(answer["tokens"]) - 1)


def _one_too_many(answer: dict[str, Any], heard: Heard) -> None:
    if "draft_n_accepted" in answer["timings"]:
        answer["timings"]["draft_n_accepted"] = len(answer["tokens"])


def _alternatives(answer: dict[str, Any], heard: Heard) -> None:
    for entry in answer["completion_probabilities"]:
        entry["top_logprobs"] = entry["top_logprobs"] or [{"id": entry["id"], "logprob": 0.0}]


def _no_alternatives(answer: dict[str, Any], heard: Heard) -> None:
    for entry in answer["completion_probabilities"]:
        entry["top_logprobs"] = []


def _no_entries(answer: dict[str, Any], heard: Heard) -> None:
    answer["completion_probabilities"] = []


def _drop_decodes(answer: dict[str, Any], heard: Heard) -> None:
    answer["text"] = "\n".join(line for line in answer["text"].splitlines() if "n_decode_total" not in line)


def _never_ends(answer: dict[str, Any], heard: Heard) -> None:
    if answer["stop_type"] in ("eos", "word"):
        answer["stop_type"] = "limit"


def fault(change: Callable[[dict[str, Any], Heard], None], path: str = "/completion") -> Fault:
    return Fault(path, change, everywhere)


THERE = ("known issue", None)
GONE = ("failed", "fixed")
CANNOT_TELL = ("failed", "not reproduced")
DRAFTED_OTHERWISE = (
    "cache-keeps-its-context",
    "map-k-keeps-its-keys",
    "map-k4v-keeps-its-keys",
    "mod-keeps-its-pool",
)
CASES: list[tuple[str, Fault | None, tuple[str, str | None]]] = [
    *((issue, None, THERE) for issue in DRAFTED_OTHERWISE),
    *((issue, fault(_steady_drafts), GONE) for issue in DRAFTED_OTHERWISE),
    *((issue, fault(_no_drafts), CANNOT_TELL) for issue in DRAFTED_OTHERWISE[::3]),
    (PAST_THE_END, None, ("passed", "fixed in b11434")),
    (PAST_THE_END, fault(_one_too_many), ("failed", "broken again")),
    (PAST_THE_END, fault(_no_drafts), CANNOT_TELL),
    (PAST_THE_END, fault(_never_ends), CANNOT_TELL),
    (PAST_THE_END, fault(_drop_decodes, "/metrics"), CANNOT_TELL),
    ("accepted-past-a-stop-word", None, THERE),
    ("accepted-past-a-stop-word", fault(_clipped), GONE),
    ("accepted-past-a-stop-word", fault(_no_drafts), CANNOT_TELL),
    ("probabilities-of-accepted-tokens", None, THERE),
    ("probabilities-of-accepted-tokens", fault(_alternatives), GONE),
    ("probabilities-of-accepted-tokens", fault(_no_drafts), CANNOT_TELL),
    ("probabilities-of-accepted-tokens", fault(_no_alternatives), CANNOT_TELL),
    ("probabilities-of-accepted-tokens", fault(_no_entries), CANNOT_TELL),
    ("cache-learns-no-single-tokens", None, THERE),
    ("cache-learns-no-single-tokens", fault(_steady_drafts), GONE),
    ("cache-learns-no-single-tokens", fault(_no_drafts), CANNOT_TELL),
]


def _name(value: object) -> str | None:
    return value.change.__name__.strip("_") if isinstance(value, Fault) else None


def with_types(room: GateRoom, *types: str) -> GateRoom:
    """The build as if it had these types only: each is three servers for the same promise."""
    factory = room.servers.factory
    factory.build = msgspec.structs.replace(factory.build, spec_types=types)
    return room


@pytest.mark.parametrize(("issue", "fault", "expected"), CASES, ids=_name)
def test_an_issue_is_told(
    make_room: MakeRoom, issue: str, fault: Fault | None, expected: tuple[str, str | None]
) -> None:
    """There, gone, back again, or not to be told: the last is never taken for gone."""
    room = make_room(fault)
    if issue == PAST_THE_END:
        room = with_types(room, "ngram-simple" if fault is not None else "draft-mtp")
    verdict = room.known_issue(issue)
    assert (verdict.status, verdict.kind) == expected, verdict.text
    assert ("cannot tell: " in verdict.text) == (expected == CANNOT_TELL)


@pytest.mark.parametrize(
    ("drafted", "written", "expected"), [(21, b"", THERE), (21, b"x", GONE), (0, b"", CANNOT_TELL)]
)
def test_a_dynamic_table_is_told(
    make_room: MakeRoom,
    monkeypatch: pytest.MonkeyPatch,
    drafted: int,
    written: bytes,
    expected: tuple[str, str | None],
) -> None:
    """A file that is written is gone; one that stays empty where nothing was drafted shows nothing."""
    real = clean_stop.serve_once

    def changed(factory: Any, argv: tuple[str, ...], log_path: Path, text: str) -> int:
        assert real(factory, argv, log_path, text) == 21
        Path(argv[argv.index("-lcd") + 1]).write_bytes(written)
        return drafted

    monkeypatch.setattr(clean_stop, "serve_once", changed)
    verdict = make_room().known_issue("dynamic-table-not-written")
    assert (verdict.status, verdict.kind) == expected, verdict.text


def test_a_build_without_the_type_is_not_checked(make_room: MakeRoom) -> None:
    """What a build does not offer it can neither have nor be rid of."""
    verdict = with_types(make_room(), "ngram-simple").known_issue("mod-keeps-its-pool")
    assert (verdict.status, verdict.kind) == ("not checked", "not offered")


ENDS = """
version: 1
warmup: "the model"
hang_after_s: 5
models:
  ends: {path: ENDING, flags: -c 4096 -t 1}
configs:
  none: {}
  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}
  mtp3: {types: [draft-mtp], flags: --spec-draft-n-max 3}
  ngram-simple: {types: [ngram-simple], flags: SIMPLE}
  mtp1+ngram-simple: {types: [draft-mtp, ngram-simple], flags: --spec-draft-n-max 1 SIMPLE}
prompt_sets:
  phrases: {path: phrases.yaml}
gates: {n_predict: 64}
profiles:
  smoke: {blocks: 1, n_predict: 48}
"""


@pytest.fixture
def ending_room(make_room: MakeRoom, tmp_path: Path) -> MakeRoom:
    """`ending_room(fault)`: a model whose end token stands inside what is drafted."""
    prompt = f'{{id: p, kind: en, messages: [{{role: user, content: "{PHRASES}"}}]}}'
    (tmp_path / "phrases.yaml").write_text(f'set: phrases\nsystem: ""\nprompts: [{prompt}]\n')
    reproductions = make_room().reproductions
    _, whole = reproductions._whole("ngram-simple", 8)
    ending = reproductions._ending_with(whole.tokens[5])
    matrix = ENDS.replace("ENDING", str(ending.path)).replace("SIMPLE", " ".join(PAST["ngram-simple"]))
    return lambda fault=None: make_room(fault, edit=lambda _: matrix)


CONFIGS = ("none", "mtp1", "mtp3", "ngram-simple", "mtp1+ngram-simple")


def _accounting(room: GateRoom, config: str) -> Verdict:
    return room.gates.accounting(GateCase("ends", config, "p"))


def test_an_end_inside_a_draft_adds_up(ending_room: MakeRoom) -> None:
    """Where the last accepted token ends the text, the step's own token is lost: no contradiction."""
    room = ending_room()
    found = {config: _accounting(room, config) for config in CONFIGS}
    assert {config: (each.status, each.kind) for config, each in found.items()} == dict.fromkeys(
        CONFIGS, ("passed", None)
    )
