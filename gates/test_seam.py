"""Seam: names and forms that this project, or what attaches to a build, relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ngram.engine.build import OF_REQUESTS
from pytest_ngram.judge import accounting, seam
from pytest_ngram.judge.types import worst

if TYPE_CHECKING:
    from pytest_ngram.pytest_fixtures.gates import Gate


@pytest.mark.ngram_gate("seam", over="config")
def test_the_flags_are_taken(ngram_gate: Gate) -> None:
    """The build lists each flag of the config's command line in its help."""
    room, case = ngram_gate.room, ngram_gate.about
    argv = room.servers.argv(case.model, case.config)
    ngram_gate.settle(seam.flags("--help", room.seam.report().flags, {case.group: argv}))


@pytest.mark.ngram_gate("seam", over="drafting")
def test_the_types_are_offered(ngram_gate: Gate) -> None:
    """The build offers each drafting type of the config."""
    room, case = ngram_gate.room, ngram_gate.about
    types = room.servers.matrix.configs[case.config].types
    ngram_gate.settle(seam.names("--spec-type", types, room.seam.report().spec_types))


@pytest.mark.ngram_gate("seam", over="build")
def test_the_metrics_have_their_names(ngram_gate: Gate) -> None:
    """`/metrics` has every counter that is read."""
    wanted = (*accounting.METRICS, accounting.PER_POSITION)
    ngram_gate.settle(seam.names("/metrics", wanted, ngram_gate.room.seam.report().metrics))


@pytest.mark.ngram_gate("seam", over="build")
def test_the_timings_have_their_names(ngram_gate: Gate) -> None:
    """`timings` of an answer that was drafted for has every key that is read."""
    wanted = (*seam.TIMINGS, *seam.TIMINGS_OF_DRAFTS)
    ngram_gate.settle(seam.names("timings", wanted, ngram_gate.room.seam.report().timings))


@pytest.mark.ngram_gate("seam", over="build")
def test_the_log_lines_are_read(ngram_gate: Gate) -> None:
    """Every kind of log line that is parsed was found in the log of a drafted request."""
    ngram_gate.settle(seam.held("log and counters", OF_REQUESTS, ngram_gate.room.seam.report().lines))


@pytest.mark.ngram_gate("seam", over="table")
def test_the_loader_takes_wrong_tables_as_before(ngram_gate: Gate) -> None:
    """A static table that is wrong in one way ends the server, or is loaded, as on earlier builds."""
    kind = ngram_gate.name
    ngram_gate.settle(seam.table(kind, ngram_gate.room.seam.report().tables[kind]))


@pytest.mark.ngram_gate("seam", over="model")
def test_the_tensors_have_their_names(ngram_gate: Gate) -> None:
    """Expert and MTP tensors of the model file follow the recipe of their architecture."""
    ngram_gate.settle(seam.tensors(ngram_gate.room.seam.tensors(ngram_gate.about.model)))


@pytest.mark.ngram_gate("seam", over="model")
def test_the_tensors_lie_where_the_header_says(ngram_gate: Gate) -> None:
    """Two readers find each tensor of each shard at the same bytes, none inside another or past the end."""
    shards, strict = ngram_gate.room.seam.places(ngram_gate.about.model), ngram_gate.strict_seam
    ngram_gate.settle(worst([seam.places(*shard, strict=strict) for shard in shards]))


@pytest.mark.ngram_gate("seam", over="build")
def test_the_graph_has_its_nodes(ngram_gate: Gate) -> None:
    """The router's nodes are in the graph, as far as the build has a program to look with."""
    report = ngram_gate.room.seam.report()
    ngram_gate.settle(seam.graph(report.graph, strict=ngram_gate.strict_seam, problem=report.graph_problem))


@pytest.mark.ngram_gate("seam", over="build")
def test_the_symbols_are_defined(ngram_gate: Gate) -> None:
    """The build's libraries define each symbol that the matrix lists."""
    ngram_gate.settle(seam.symbols(ngram_gate.room.seam.report().symbols))
