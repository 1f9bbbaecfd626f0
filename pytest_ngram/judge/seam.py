"""The seam: names and forms of llama.cpp that this project, or what attaches to a build, relies on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pytest_ngram.judge.types import Verdict, failed, passed
from pytest_ngram.record import Engine

GATE = "seam"
MISSING = "missing"
CHANGED = "changed"
NOT_OFFERED = "not offered"
NOT_SEEN = "not seen"
UNKNOWN = "unknown size"
SCHEMA = 1

TIMINGS = ("cache_n", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms")
TIMINGS_OF_DRAFTS = ("draft_n", "draft_n_accepted")
# How llama.cpp's loader takes a table that is not right (seen on b11063 to b11549).
TABLES = {
    "missing": "aborts",
    "cut-record": "aborts",
    "no-pairs": "aborts",
    "count-0": "aborts",
    "trailing-bytes": "loads",
    "duplicate-keys": "loads",
    "empty": "loads",
    "another-vocabulary": "loads",
}
GRAPH_NODES = ("ffn_moe_topk", "ffn_moe_logits", "ffn_moe_weights")
_NEXTN = ("nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight")
_EXPERTS = re.compile(r"blk\.(\d+)\.ffn_(gate|up|down|gate_up)_exps\.weight")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one build has. Lists are sorted; `lines` are the log lines that are read, by name.

    `graph` is the node names that `llama-eval-callback` prints, None where the build lacks the program, or
    where that could not show them: then `graph_problem` says why.
    `symbols` are those of `gates: symbols:`, and whether a library of the build defines each.
    `engine` is what the build's server says of itself, without a command line; absent from older reports.
    """

    schema: int = SCHEMA
    build: str
    version: str | None
    flags: tuple[str, ...]
    spec_types: tuple[str, ...]
    metrics: tuple[str, ...]
    timings: tuple[str, ...]
    lines: dict[str, bool]
    tables: dict[str, str]
    graph: tuple[str, ...] | None
    symbols: dict[str, bool]
    graph_problem: str | None = None
    engine: Engine | None = None


class Tensors(msgspec.Struct, frozen=True):
    """What a model file says of its tensors: names, trunk layers, routed experts, MTP layers."""

    arch: str
    names: tuple[str, ...]
    n_layer: int
    n_expert: int | None
    nextn: int


class Place(msgspec.Struct, frozen=True):
    """Where one tensor lies in a file: first byte and size, as two readers tell it.

    `n_bytes` is None for a type whose size is not known, `other_offset` where the other reader cannot tell.
    """

    name: str
    offset: int
    n_bytes: int | None
    other_offset: int | None


def names(what: str, wanted: Iterable[str], found: Iterable[str]) -> Verdict:
    """Return whether all wanted names are there; `what` says what they are."""
    wanted, found = list(wanted), set(found)
    lacking = [name for name in wanted if name not in found]
    if lacking:
        return failed(GATE, MISSING, [f"{what}: {name} is not there" for name in lacking])
    return passed(GATE, f"{what}: all {len(wanted)} are there")


def flags(what: str, offered: Sequence[str], argvs: Mapping[str, Sequence[str]]) -> Verdict:
    """Return whether a build takes each flag of some command lines, by what they are for."""
    known = set(offered)
    problems = [
        f"{what}: {word} of {name}"
        for name, argv in argvs.items()
        for word in argv
        if word.startswith("-") and not _number(word) and word not in known
    ]
    return failed(GATE, MISSING, problems) if problems else passed(GATE, f"{what}: all flags are taken")


def held(what: str, wanted: Iterable[str], observed: Mapping[str, bool]) -> Verdict:
    """Return whether a drafted request showed everything that is read.

    Args:
        what: what the names are about.
        wanted: all that it has to show.
        observed: what it showed; a name that is not there could not be looked for, which is no pass.
    """
    wanted = list(wanted)
    lines = [f"{what}: {name} was not seen" for name in wanted if observed.get(name) is False]
    lines += [f"{what}: {name} could not be looked for" for name in wanted if name not in observed]
    if lines or not wanted:
        return failed(GATE, MISSING, lines or [f"{what}: nothing is wanted"])
    return passed(GATE, f"{what}: all {len(wanted)} were seen")


def symbols(found: Mapping[str, bool]) -> Verdict:
    """Return whether a build's libraries define each symbol that the user lists; none listed is no pass."""
    if not found:
        return Verdict(GATE, "not checked", "none listed", ("the matrix lists no `gates: symbols:`",))
    return names("symbols", found, [name for name, there in found.items() if there])


def table(kind: str, reaction: str) -> Verdict:
    """Return whether the loader takes one kind of wrong table as it did before."""
    wanted = TABLES[kind]
    if reaction != wanted:
        return failed(GATE, CHANGED, [f"a table with {kind}: the loader {reaction}, before it was: {wanted}"])
    return passed(GATE, f"a table with {kind}: the loader {reaction}")


def tensors(model: Tensors) -> Verdict:
    """Return whether the expert and MTP tensors of a file have the names that others attach to.

    Routed experts are `blk.N.ffn_{gate,up,down}_exps.weight`, or fused `ffn_gate_up_exps`, in every layer
    that has any; the MTP layers come after the trunk and have `nextn.*`.
    """
    parts: dict[int, set[str]] = {}
    for name in model.names:
        if match := _EXPERTS.fullmatch(name):
            parts.setdefault(int(match[1]), set()).add(match[2])
    problems = [
        f"layer {layer} has the expert tensors {', '.join(sorted(found))} only"
        for layer, found in sorted(parts.items())
        if not ({"gate", "up", "down"} <= found or {"gate_up", "down"} <= found)
    ]
    if model.n_expert and not parts:
        problems.append(f"{model.n_expert} experts are stated, and no tensor is named ffn_*_exps")
    if parts and not model.n_expert:
        problems.append("there are expert tensors, and no number of experts is stated")
    known = set(model.names)
    for layer in range(model.n_layer, model.n_layer + model.nextn):
        problems += [
            f"blk.{layer}.{name} is not there" for name in _NEXTN if f"blk.{layer}.{name}" not in known
        ]
    if problems:
        return failed(GATE, MISSING, [f"{model.arch}: {problem}" for problem in problems])
    experts = f"expert tensors in {len(parts)} layers" if parts else "no experts"
    return passed(GATE, f"{model.arch}: {experts}, {model.nextn} MTP layers")


def places(tensors: Sequence[Place], size_bytes: int, *, strict: bool = False) -> Verdict:
    """Return whether tensors lie in the file without gaps in truth: two readers agree, none overlaps.

    Args:
        tensors: of one file.
        size_bytes: of the file.
        strict: whether not to know a size or place is a failure.
    """
    problems, end, before = [], 0, ""
    for place in sorted(tensors, key=lambda place: place.offset):
        if place.other_offset not in (None, place.offset):
            problems.append(
                f"{place.name} lies at byte {place.offset}, by another reader {place.other_offset}"
            )
        if place.offset < end:
            problems.append(f"{place.name} begins inside {before}")
        end, before = place.offset + (place.n_bytes or 0), place.name
    if end > size_bytes:
        problems.append(f"{before} ends at byte {end}, the file has {size_bytes}")
    if problems or not tensors:
        return failed(GATE, CHANGED, problems or ["the file has no tensor"])
    if unknown := tuple(_unknown(tensors)):
        return failed(GATE, UNKNOWN, unknown) if strict else Verdict(GATE, "not checked", UNKNOWN, unknown)
    return passed(GATE, f"{len(tensors)} tensors, the last ends at byte {end} of {size_bytes}")


def _unknown(tensors: Sequence[Place]) -> Iterator[str]:
    for place in tensors:
        if place.n_bytes is None:
            yield f"{place.name}: the size of its type is not known"
        if place.other_offset is None:
            yield f"{place.name}: the other reader cannot tell where it lies"


def graph(nodes: Sequence[str] | None, *, strict: bool, problem: str | None = None) -> Verdict:
    """Return whether the graph of an expert model has the nodes that others attach to.

    Args:
        nodes: what `llama-eval-callback` printed; None where the build lacks the program.
        strict: whether not to be able to look is a failure.
        problem: why a program that is there could not show them.
    """
    if problem is not None:
        return failed(GATE, NOT_SEEN, problem.splitlines())
    if nodes is None:
        lines = ("the build has no llama-eval-callback to look with",)
        return (
            failed(GATE, NOT_OFFERED, lines) if strict else Verdict(GATE, "not checked", NOT_OFFERED, lines)
        )
    plain = [node for node in GRAPH_NODES if not any(_is_node(node, name) for name in nodes)]
    return names("graph nodes", GRAPH_NODES, set(GRAPH_NODES) - set(plain))


def diff(old: Report, new: Report) -> list[str]:
    """Return what a new build has, lacks or does otherwise, one line each; empty where nothing changed."""
    lines = [] if old.build == new.build else [f"build: {old.build} -> {new.build}"]
    if old.graph_problem != new.graph_problem:
        lines.append(f"graph: not seen: {old.graph_problem or 'no'} -> {new.graph_problem or 'no'}")
    for name in ("flags", "spec_types", "metrics", "timings", "graph"):
        before, after = getattr(old, name), getattr(new, name)
        if before is None or after is None:
            lines += [f"{name}: {_known(before)} -> {_known(after)}"] if before is not after else []
            continue
        lines += [f"{name}: gone: {item}" for item in before if item not in after]
        lines += [f"{name}: new: {item}" for item in after if item not in before]
    for name in ("lines", "tables", "symbols"):
        before, after = getattr(old, name), getattr(new, name)
        lines += [
            f"{name}: {key}: {before.get(key, 'not known')} -> {after.get(key, 'not known')}"
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
    return lines


def _is_node(node: str, name: str) -> bool:
    """`ffn_moe_topk-3` is the node `ffn_moe_topk`; weights have forms such as `ffn_moe_weights_norm-3`."""
    return re.match(rf"{node}(_\w+)?-\d+", name) is not None


def _known(value: Sequence[str] | None) -> str:
    return "not known" if value is None else f"{len(value)} names"


def _number(word: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?", word) is not None
