"""The seam can fail: a build that lacks a name, line, reaction or place is told by what it lacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import msgspec
import pytest
from fault_proxy import Fault, Heard

from pytest_ngram.engine.build import OF_REQUESTS
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.evidence.room import GateRoom
from pytest_ngram.evidence.wrong_tables import wrong_tables
from pytest_ngram.judge import accounting, seam
from pytest_ngram.judge.types import Verdict
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

MakeRoom = Callable[..., GateRoom]
Argv = tuple[str, ...]


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes | None]], None]:
    """`tables(kinds)`: the wrong tables that are tried; none before, since each is a server of its own."""

    def tried(kinds: dict[str, bytes | None]) -> None:
        monkeypatch.setattr("pytest_ngram.evidence.seam.wrong_tables", lambda n_vocab: kinds)

    tried({})
    return tried


def restarted(room: GateRoom, change: Callable[[Argv], Argv], **options: Any) -> GateRoom:
    """Servers that are started otherwise than asked for."""
    factory = room.servers.factory
    real = factory.start

    def start(argv: Sequence[str], **asked: Any) -> RunningEngine:
        return real(change(tuple(argv)), **(asked | options))

    factory.start = start  # type: ignore[method-assign]
    return room


def without(argv: Argv, flag: str) -> Argv:
    return argv[: argv.index(flag)] + argv[argv.index(flag) + 2 :] if flag in argv else argv


def with_value(argv: Argv, flag: str, value: str) -> Argv:
    return (*without(argv, flag), flag, value)


def lines(room: GateRoom) -> Verdict:
    return seam.held("log and counters", OF_REQUESTS, room.seam.report().lines)


def told(verdict: Verdict) -> set[str]:
    """The names that a verdict says were not seen."""
    return {name for name in OF_REQUESTS for line in verdict.lines if f": {name} " in line}


def test_nothing_is_missing_without_mtp(make_room: MakeRoom) -> None:
    """The seam drafts by itself with what a build has, whatever configs are asked, and sees every line."""
    room = make_room()
    factory = room.servers.factory
    factory.build = msgspec.structs.replace(factory.build, spec_types=("ngram-simple",))
    assert lines(room).status == "passed", lines(room).text
    timings = (*seam.TIMINGS, *seam.TIMINGS_OF_DRAFTS)
    assert seam.names("timings", timings, room.seam.report().timings).status == "passed"
    metrics = (*accounting.METRICS, accounting.PER_POSITION)
    assert seam.names("/metrics", metrics, room.seam.report().metrics).status == "passed"


OF_DRAFTS = {
    "per-position-counts",
    "timings-drafts",
    "acceptance-lines",
    "per-position-lines",
    "trace-lines",
}


@pytest.mark.parametrize(
    ("change", "options", "lacking"),
    [
        (lambda argv: argv, {"trace": False}, {"trace-lines"}),
        (lambda argv: with_value(argv, "-lv", "3"), {}, {"per-position-lines", "statistics-lines"}),
        (lambda argv: without(argv, "--spec-type"), {}, OF_DRAFTS | {"statistics-lines"}),
    ],
    ids=["no-trace", "less-verbose", "no-drafts"],
)
def test_lines_that_are_missing(
    make_room: MakeRoom, change: Callable[[Argv], Argv], options: dict[str, Any], lacking: set[str]
) -> None:
    """What a log does not say fails by its name, and so does what could not be looked for without a draft."""
    verdict = lines(restarted(make_room(), change, **options))
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert told(verdict) == lacking


def _no_such(word: str) -> Callable[[dict[str, Any], Heard], None]:
    def drop(answer: dict[str, Any], heard: Heard) -> None:
        answer["text"] = "\n".join(line for line in answer["text"].splitlines() if word not in line)

    return drop


@pytest.mark.parametrize(
    ("word", "lacking"),
    [
        ("n_decode_total", {"n-decode-total"}),
        ("draft_tokens_total", {"draft-counts"}),
        ("num_drafts_total", {"verify-counts"}),
        ("per_pos_total", {"per-position-counts"}),
    ],
)
def test_metrics_that_are_missing(make_room: MakeRoom, word: str, lacking: set[str]) -> None:
    """A metric that is gone fails by its name, as a counter that is read and as a name."""
    room = make_room(Fault("/metrics", _no_such(word)))
    assert told(lines(room)) == lacking
    verdict = seam.names(
        "/metrics", (*accounting.METRICS, accounting.PER_POSITION), room.seam.report().metrics
    )
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert word in verdict.text


def test_flags_and_types_that_are_gone(make_room: MakeRoom) -> None:
    """A flag or type that a build no longer has fails by its name; those that are left do not."""
    room = make_room()
    factory, argv = room.servers.factory, room.servers.argv("tiny", "mtp1")
    for gone in (False, True):
        if gone:
            factory.build = msgspec.structs.replace(
                factory.build,
                flags=tuple(f for f in factory.build.flags if "--spec-draft-n-max" not in f.names),
                spec_types=tuple(t for t in factory.build.spec_types if t != "draft-mtp"),
            )
        flags = seam.flags("--help", _flags(room), {"tiny/mtp1": argv})
        types = seam.names("--spec-type", ("draft-mtp",), factory.build.spec_types)
        assert [flags.kind, types.kind] == (["missing", "missing"] if gone else [None, None])
    assert "--spec-draft-n-max of tiny/mtp1" in flags.text
    assert seam.flags("--help", _flags(room), {"tiny/none": room.servers.argv("tiny", "none")}).kind is None


def _flags(room: GateRoom) -> list[str]:
    return [name for flag in room.servers.factory.build.flags for name in flag.names]


def test_another_loader_is_told(
    make_room: MakeRoom, tables: Callable[[dict[str, bytes | None]], None], tmp_path: Path
) -> None:
    """A loader that ends where it loaded, or loads where it ended, fails by the kind of table."""
    kinds = {kind: wrong_tables(1000)[kind] for kind in ("empty", "cut-record")}
    tables(kinds)
    room = make_room()
    as_before = {kind: seam.table(kind, reaction) for kind, reaction in room.seam.report().tables.items()}
    assert {kind: each.status for kind, each in as_before.items()} == dict.fromkeys(kinds, "passed")

    swapped = {"empty": "cut-record", "cut-record": "empty"}

    def other(argv: Argv) -> Argv:
        if "-lcs" not in argv:
            return argv
        asked = Path(argv[argv.index("-lcs") + 1])
        given = tmp_path / f"given-{asked.name}"
        given.write_bytes(kinds[swapped[asked.stem]] or b"")
        return with_value(argv, "-lcs", str(given))

    room = restarted(make_room(), other)
    room.store.folder = tmp_path / "another-session"
    found = {kind: seam.table(kind, reaction) for kind, reaction in room.seam.report().tables.items()}
    assert {kind: each.kind for kind, each in found.items()} == dict.fromkeys(kinds, "changed")


Spoil = Callable[[gguf.GGUFReader, bytearray], None]


@pytest.fixture
def with_file(make_room: MakeRoom, session_cache: Path, tmp_path: Path) -> Callable[..., GateRoom]:
    """`with_file(spoil)`: gates of a model file of which one thing was changed."""

    def make(spoil: Callable[[Path], None] = lambda path: None) -> GateRoom:
        copy = tmp_path / "copy.gguf"
        shutil.copyfile(generate(HandBuiltSpec(target=0.7), session_cache / "models"), copy)
        spoil(copy)
        return make_room(edit=lambda matrix: matrix.replace("PATH", str(copy)))

    return make


def _rename(old: bytes, new: bytes) -> Callable[[Path], None]:
    def rename(path: Path) -> None:
        content = path.read_bytes()
        assert old in content
        assert len(old) == len(new)
        path.write_bytes(content.replace(old, new))

    return rename


def _overlap(path: Path) -> None:
    reader = gguf.GGUFReader(path, "r+")
    one, other = reader.tensors[3:5]
    other.field.parts[-1][0] = one.field.parts[-1][0]
    reader.data.flush()


def _unknown_type(path: Path) -> None:
    reader = gguf.GGUFReader(path, "r+")
    reader.tensors[3].field.parts[-2][0] = 9999
    reader.data.flush()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            _rename(b"blk.0.ffn_up_exps", b"blk.0.ffn_up_expz"),
            "layer 0 has the expert tensors down, gate only",
        ),
        (_rename(b"nextn.enorm", b"nextn.enorn"), "nextn.enorm.weight is not there"),
    ],
)
def test_tensors_with_other_names(
    with_file: Callable[..., GateRoom], spoil: Callable[[Path], None], said: str
) -> None:
    """A tensor that has another name than its recipe fails by layer and part."""
    assert seam.tensors(with_file().seam.tensors("plain")).status == "passed"
    verdict = seam.tensors(with_file(spoil).seam.tensors("plain"))
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert said in verdict.text


def test_tensors_in_other_places(with_file: Callable[..., GateRoom]) -> None:
    """One tensor inside another fails; a size that is not known is not taken for 0, and strictly fails."""
    (right,) = with_file().seam.places("plain")
    assert seam.places(*right).status == "passed"
    (overlapping,) = with_file(_overlap).seam.places("plain")
    assert seam.places(*overlapping).kind == "changed"
    (unknown,) = with_file(_unknown_type).seam.places("plain")
    assert (seam.places(*unknown).status, seam.places(*unknown).kind) == ("not checked", "unknown size")
    assert seam.places(*unknown, strict=True).status == "failed"


def test_symbols_and_programs_that_are_not_there(make_room: MakeRoom) -> None:
    """A symbol that no library defines fails by its name; a build without the program fails where strict."""
    gates = "gates: {n_predict: 64, symbols: [llama_decode, llama_decode_by_hand]}"
    report = make_room(edit=lambda matrix: matrix.replace("gates: {n_predict: 64}", gates)).seam.report()
    assert report.symbols == {"llama_decode": True, "llama_decode_by_hand": False}
    verdict = seam.symbols(report.symbols)
    assert (verdict.status, verdict.kind) == ("failed", "missing")
    assert "llama_decode_by_hand is not there" in verdict.text
    assert seam.graph(report.graph, strict=True).kind == "not offered"
    assert seam.graph(report.graph, strict=False).status == "not checked"
