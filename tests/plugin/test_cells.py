"""Cells on a real server: what is recorded, and that it is true."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.models.handbuilt import HandBuiltSpec, rule
from pytest_ngram.record import from_builtins, run_from_builtins, unpack_tokens

if TYPE_CHECKING:
    from conftest import Project

ROOT = Path(__file__).parents[2]
TARGET = 0.7  # as the matrix of conftest.py dials it


def records_of(data: dict[str, Any]) -> list[Any]:
    return [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]


def test_a_run_records_every_cell(project: Project) -> None:
    """Each cell is a benchmark whose OPS is tg, with the whole record beside it."""
    data = project.measure()
    records = records_of(data)
    assert len(records) == 4 * 2  # none first and last, mtp1, ngram-cache; two prompts
    for bench, record in zip(data["benchmarks"], records, strict=True):
        (round_,) = record.rounds
        seconds = round_.predicted_ms / 1000 / (round_.predicted_n - 1)
        assert bench["stats"]["ops"] == pytest.approx(1 / seconds, rel=1e-9)
        assert bench["stats"]["rounds"] == 1
        assert record.outcome.status == "ok"
        assert round_.predicted_n == len(unpack_tokens(round_.tokens)) == 48
        assert round_.steps == 47 - round_.accepted
        assert record.engine.argv[record.engine.argv.index("-np") + 1] == "1"
        assert record.memory.rss_anon_mb > 1


def test_the_text_is_the_rules_whatever_drafts(project: Project) -> None:
    """On the hand-built model the ids of every config are those that its rule computes."""
    data = project.measure()
    known = rule(HandBuiltSpec(target=TARGET))
    prompts = {p.prompt: unpack_tokens(p.tokens) for p in run_from_builtins(data["ngram"]).prompts}
    for record in records_of(data):
        ids = unpack_tokens(record.rounds[0].tokens)
        assert ids == known.continuation(prompts[record.cell.prompt], 48), record.cell


def test_drafting_is_counted(project: Project) -> None:
    """MTP drafts at every step but the last; the baseline is known to draft nothing, not unknown."""
    by_config: dict[str, list[Any]] = {}
    for record in records_of(project.measure()):
        by_config.setdefault(record.cell.config, []).append(record.rounds[0])
    for round_ in by_config["none"]:
        assert (round_.drafted, round_.accepted, round_.verify_steps, round_.replays) == (0, 0, 0, 0)
        assert round_.steps == 47
    for round_ in by_config["mtp1"]:
        assert 0 < round_.accepted < round_.drafted
        assert round_.drafted == round_.verify_steps
        assert sum(round_.accepted_per_pos) == round_.accepted
        # the last step may have room for one token only, which is not drafted
        assert round_.steps - round_.verify_steps in (0, 1)
        # the prompt takes two decodes on a model with a recurrent state
        assert round_.n_decode == round_.steps + 2


@pytest.fixture
def instrument(project: Project) -> Project:
    """The hand-built model under the prompts that measure it, one of each word class, 1000 tokens each."""
    prompts = ROOT / "fixtures" / "prompts" / "instrument.yaml"
    project.edit("words: {path: words.yaml}", f"instrument: {{path: {prompts}}}")
    project.edit("n_predict: 48", "n_predict: 1000")
    return project


def test_the_instrument_is_true(instrument: Project) -> None:
    """Mean acceptance over the classes is within 0.05 of the target, which lies between theirs.

    And the plain text is the rule's, token for token, over a thousand tokens of every prompt.
    """
    data = instrument.measure("-k", "none or mtp1")
    known = rule(HandBuiltSpec(target=TARGET))
    prompts = {p.prompt: unpack_tokens(p.tokens) for p in run_from_builtins(data["ngram"]).prompts}
    rates: dict[str, float] = {}
    for record in records_of(data):
        (round_,) = record.rounds
        if record.cell.config == "mtp1":
            rates[record.cell.prompt] = round_.accepted / round_.drafted
        else:
            ids = unpack_tokens(round_.tokens)
            assert len(ids) == 1000
            assert ids == known.continuation(prompts[record.cell.prompt], 1000), record.cell
    assert set(rates) == {"word-en", "word-ru", "word-code", "word-phrase"}
    assert fmean(rates.values()) == pytest.approx(TARGET, abs=0.05)
    assert min(rates.values()) < TARGET - 0.1 < TARGET + 0.1 < max(rates.values())


def test_what_cells_share_stands_once(project: Project) -> None:
    """Prompts, starts and the order stand at the top level of the JSON; nothing failed."""
    run = run_from_builtins(project.measure()["ngram"])
    assert [(p.model, p.prompt) for p in run.prompts] == [("tiny", "word-en"), ("tiny", "word-ru")]
    assert run.failed_cells == ()
    assert run.run.planned_cells == run.run.measured_cells == 8
    assert len(run.run.starts) == 4
    assert all(start.load_s > 0 for start in run.run.starts)
    (order,) = run.run.order
    assert order.startswith("tiny block 1 t0: none (first), ")
    assert order.endswith(", none (last)")


def test_equal_neighbours_share_one_server(project: Project) -> None:
    """One start per config and pass, not one per cell: as many logs as starts."""
    project.run()
    logs = list((project.path / ".ngram" / "logs").rglob("*.log"))
    assert len(logs) == 4


def test_min_rounds_of_a_stateless_config_are_requests(project: Project) -> None:
    """`rounds: 2` sends two requests, each with a seed of its own, and both are in the record."""
    project.edit("mtp1: {types: [draft-mtp],", "mtp1: {types: [draft-mtp], rounds: 2,")
    data = project.measure("-k", "mtp1")
    for bench, record in zip(data["benchmarks"], records_of(data), strict=True):
        assert bench["stats"]["rounds"] == 2
        assert len({round_.seed for round_ in record.rounds}) == 2
        assert record.rounds[0].text_sha256 == record.rounds[1].text_sha256


def test_the_table_ends_the_run(project: Project) -> None:
    """The terminal shows a row per config, acceptance with coverage, where it is saved, and the journal."""
    result = project.run("--benchmark-autosave", "--benchmark-quiet")
    result.stdout.fnmatch_lines(
        [
            "*tiny block 1 t0: none (first), *",
            "tiny: 2 prompts, temperature 0; none first and last in a block differ by up to *%",
            "*config *tg t/s *vs none *accept @ coverage *tok/step *pp t/s *RSS MiB *",
            "  none  *baseline*",
            "  mtp1 *%* @ *%*",
            "saved: *.benchmarks*.json",
            "journal: *.ngram*.jsonl",
        ]
    )


def test_k_picks_configs_only(project: Project) -> None:
    """`-k mtp` runs the MTP cells and no other; without the baseline no percent is told."""
    data = project.measure("-k", "mtp")
    assert {record.cell.config for record in records_of(data)} == {"mtp1"}
    result = project.run("-k", "mtp", "--benchmark-quiet")
    result.stdout.fnmatch_lines(["*add `or none`*"])
    assert "+" not in "".join(line for line in result.outlines if line.startswith("  mtp1"))


def test_collect_only_starts_nothing_and_leaves_nothing(project: Project) -> None:
    """Looking at the plan writes no journal and starts no server."""
    result = project.run("--collect-only", "-q")
    assert result.ret == 0
    assert not (project.path / ".ngram").exists()
