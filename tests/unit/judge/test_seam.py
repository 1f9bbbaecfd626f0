"""Names and forms that others rely on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_ngram.judge import seam
from pytest_ngram.judge.seam import Place, Report, Tensors

MTP = ("blk.2.nextn.eh_proj.weight", "blk.2.nextn.enorm.weight", "blk.2.nextn.hnorm.weight")
SPLIT = tuple(f"blk.{i}.ffn_{part}_exps.weight" for i in (0, 1) for part in ("gate", "up", "down"))
FUSED = tuple(f"blk.{i}.ffn_{part}_exps.weight" for i in (0, 1) for part in ("gate_up", "down"))


def report(**changes: Any) -> Report:
    values: dict[str, Any] = {
        "build": "b1",
        "version": "1",
        "flags": ("--a", "--b"),
        "spec_types": ("x",),
        "metrics": ("m",),
        "timings": ("t",),
        "lines": {"trace-lines": True},
        "tables": {"empty": "loads"},
        "graph": None,
        "symbols": {"f": True},
    }
    return Report(**values | changes)


@pytest.mark.parametrize(
    ("names", "n_expert", "nextn", "status"),
    [
        (SPLIT, 8, 0, "passed"),
        (FUSED, 8, 0, "passed"),
        ((*SPLIT, *MTP), 8, 1, "passed"),
        (("blk.0.ffn_up.weight",), None, 0, "passed"),
        (SPLIT[1:], 8, 0, "failed"),
        (FUSED[1:], 8, 0, "failed"),
        (("blk.0.ffn_up_experts.weight",), 8, 0, "failed"),
        (SPLIT, None, 0, "failed"),
        ((*SPLIT, *MTP[1:]), 8, 1, "failed"),
    ],
)
def test_tensor_names(names: tuple[str, ...], n_expert: int | None, nextn: int, status: str) -> None:
    """Experts, split or fused, and MTP layers have their names; one that is missing fails."""
    assert seam.tensors(Tensors("qwen35moe", names, 2, n_expert, nextn)).status == status


@pytest.mark.parametrize(
    ("places", "size", "said"),
    [
        ([Place("a", 32, 32, 32), Place("b", 64, 4, 64)], 68, None),
        ([Place("a", 32, 32, 64)], 100, "another reader"),
        ([Place("a", 32, 33, 32), Place("b", 64, 4, 64)], 68, "b begins inside a"),
        ([Place("a", 32, 32, 32)], 63, "ends at byte 64"),
        ([], 63, "no tensor"),
        ([Place("a", 32, None, 32), Place("b", 31, 4, 31)], 68, "a begins inside b"),
    ],
)
def test_tensor_places(places: list[Place], size: int, said: str | None) -> None:
    """Tensors lie where two readers say, apart from each other, within the file."""
    verdict = seam.places(places, size)
    assert (verdict.status == "passed") == (said is None)
    assert said is None or said in verdict.text


@pytest.mark.parametrize("place", [Place("a", 32, None, 32), Place("a", 32, 32, None)])
def test_an_unknown_place_is_no_pass(place: Place) -> None:
    """A size or place that is not known is told as that, and strictly fails."""
    for strict, status in ((False, "not checked"), (True, "failed")):
        verdict = seam.places([place, Place("b", 64, 4, 64)], 68, strict=strict)
        assert (verdict.status, verdict.kind) == (status, "unknown size")
        assert "a: " in verdict.text


@pytest.mark.parametrize("kind", seam.TABLES)
def test_another_reaction_is_told(kind: str) -> None:
    """A loader that takes one kind of wrong table otherwise than before fails."""
    assert seam.table(kind, seam.TABLES[kind]).status == "passed"
    assert seam.table(kind, "refuses").kind == "changed"


NODES = ("ffn_moe_logits-0", "ffn_moe_topk-0", "ffn_moe_weights_norm-0")


@pytest.mark.parametrize(
    ("nodes", "strict", "status"),
    [
        (NODES, False, "passed"),
        (NODES[1:], False, "failed"),
        ((), False, "failed"),
        (None, False, "not checked"),
        (None, True, "failed"),
    ],
)
def test_graph_nodes(nodes: tuple[str, ...] | None, strict: bool, status: str) -> None:
    """The nodes are there; where nobody can look that is said, and strictly it fails."""
    assert seam.graph(nodes, strict=strict).status == status


def test_a_graph_that_could_not_be_seen_fails() -> None:
    """A program that is there and fails is neither a build without it nor one without the nodes."""
    verdict = seam.graph(None, strict=False, problem="it hangs\nmore")
    assert (verdict.status, verdict.kind, verdict.lines) == ("failed", "not seen", ("it hangs", "more"))


def test_names_flags_lines_and_symbols() -> None:
    """Each fails by the name of what is missing."""
    assert seam.names("/metrics", ["a", "b"], ["a", "b"]).status == "passed"
    assert "b is not there" in seam.names("/metrics", ["a", "b"], ["a"]).text
    assert seam.flags("--help", ["--a"], {"x": ["--a", "-3", "1"]}).status == "passed"
    assert "--b of x" in seam.flags("--help", ["--a"], {"x": ["--a", "--b"]}).text
    assert seam.held("log", ["trace-lines"], {"trace-lines": True, "more": False}).status == "passed"
    assert "trace-lines was not seen" in seam.held("log", ["trace-lines"], {"trace-lines": False}).text
    assert "trace-lines could not" in seam.held("log", ["trace-lines"], {"metrics": True}).text
    assert seam.held("log", [], {"trace-lines": True}).status == "failed"
    assert seam.symbols({"f": True}).status == "passed"
    assert "f is not there" in seam.symbols({"f": False}).text
    assert seam.symbols({}).status == "not checked"


def test_no_difference_is_none() -> None:
    """Equal reports differ in nothing."""
    assert seam.diff(report(), report()) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"build": "b2"}, "build: b1 -> b2"),
        ({"flags": ("--a",)}, "flags: gone: --b"),
        ({"spec_types": ("x", "y")}, "spec_types: new: y"),
        ({"metrics": ()}, "metrics: gone: m"),
        ({"timings": ("t", "u")}, "timings: new: u"),
        ({"lines": {"trace-lines": False}}, "lines: trace-lines: True -> False"),
        ({"tables": {"empty": "aborts"}}, "tables: empty: loads -> aborts"),
        ({"graph": ("n",)}, "graph: not known -> 1 names"),
        ({"graph_problem": "it hangs"}, "graph: not seen: no -> it hangs"),
        ({"symbols": {}}, "symbols: f: True -> not known"),
    ],
)
def test_each_difference_is_a_line(changes: dict[str, Any], line: str) -> None:
    """What a new build has, lacks or does otherwise is told, once."""
    assert seam.diff(report(), report(**changes)) == [line]


def test_every_field_is_compared() -> None:
    """A new field of the report cannot be forgotten by the difference."""
    compared = {"flags", "spec_types", "metrics", "timings", "graph", "lines", "tables", "symbols", "build"}
    compared |= {"graph_problem"}
    assert {field.name for field in msgspec.structs.fields(Report)} == compared | {
        *("schema", "version", "engine"),  # which build it is, and not what it has
    }
