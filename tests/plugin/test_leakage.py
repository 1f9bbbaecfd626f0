"""Leakage, end to end: a prompt that is in the corpus of a table is not measured with that table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_ngram.models.handbuilt.rule import rule_of_seed
from pytest_ngram.models.handbuilt.words import class_words
from pytest_ngram.record import unpack_tokens

if TYPE_CHECKING:
    from conftest import Project

SPOKEN = class_words()
PROMPTS = {
    "fresh": "".join(
        SPOKEN["en"][:40:2]
    ),  # 20 tokens, every other word: none of its 8-grams is in the corpus
    "copied": "".join(SPOKEN["en"][1:64]),  # 63 tokens
    "brief": "".join(SPOKEN["ru"][:3]),
}
MATRIX = """
version: 1
warmup: "open the file"
hang_after_s: 3
models:
  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}
configs:
  none: {}
  ngram-cache+chats: {types: [ngram-cache], table: chats}
tables:
  chats: {corpus: {path: chats.jsonl}, min_count: 1}
prompt_sets:
  words: {path: words.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 48}
"""
CONFIG, MODEL = "ngram-cache+chats", "tiny"


def answer(text: str) -> str:
    """What the model says after a prompt, twice, so that a table of it drafts on that prompt."""
    known = rule_of_seed(1)
    ids = [known.vocabulary.word_id(f" {word}") for word in text.split()]
    end_of_template = int(np.flatnonzero((known.number < 0) & (known.label < 0))[0])
    return known.text(known.continuation([*ids, end_of_template], 48)) * 2


def message(number: int, content: str, role: str = "user") -> str:
    row = {"v": 1, "session": "secret plans", "seq": number, "role": role, "content": content}
    return json.dumps(row) + "\n"


def chats(*texts: str) -> str:
    return "".join(message(number, text) for number, text in enumerate(texts, start=7))


@pytest.fixture
def leaky(project: Project) -> Project:
    """Three prompts, one of which somebody had typed in the chats of the table."""
    project.matrix.write_text(MATRIX, encoding="utf-8")
    rows = [
        f'  - {{id: {name}, kind: word, messages: [{{role: user, content: "{text}"}}]}}'
        for name, text in PROMPTS.items()
    ]
    (project.bench / "words.yaml").write_text(
        "\n".join(["set: words", 'system: ""', "prompts:", *rows, ""]), encoding="utf-8"
    )
    write(project, *own_words(), PROMPTS["copied"])
    return project


def own_words() -> list[str]:
    """Chats in which none of the prompts is: all that the model can say, in another order."""
    return [answer(text) for text in PROMPTS.values()]


def write(project: Project, *texts: str) -> None:
    (project.bench / "chats.jsonl").write_text(chats(*texts), encoding="utf-8")


def cells(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Records of the table's config that ended well, by prompt."""
    records = [bench["extra_info"]["ngram"] for bench in data["benchmarks"]]
    return {r["cell"]["prompt"]: r for r in records if r["cell"]["config"] == CONFIG}


def test_a_prompt_in_the_corpus_is_refused(leaky: Project) -> None:
    """Its cell fails with the message's session and number, the others are measured, and no text is told."""
    saved = leaky.path / "run.json"
    result = leaky.run("--benchmark-quiet", f"--benchmark-json={saved}")
    result.assert_outcomes(passed=8, errors=1)
    text = result.stdout.str()
    assert "prompt 'copied' is in the corpus of table 'chats': a run of 63 tokens" in text
    assert "in message 10 of session 'secret plans' (line 4 of chats.jsonl)" in text
    assert "cells with tables.chats are refused, a leak: copied" in text
    assert PROMPTS["copied"].strip() not in text
    data = json.loads(saved.read_text())
    (failed,) = data["ngram"]["failed_cells"]
    assert (failed["outcome"]["status"], failed["rounds"]) == ("refused", [])
    leakage = failed["table"]["leakage"]
    assert (leakage["run"], leakage["share"], leakage["exact"], leakage["near"]) == (63, 1.0, 1, 0)
    assert leakage["at"] == {"corpus": "chats.jsonl", "session": "secret plans", "number": 10, "line": 4}
    assert set(cells(data)) == {"fresh", "brief"}
    assert {r["extra_info"]["ngram"]["cell"]["prompt"] for r in data["benchmarks"]} == set(PROMPTS)


def test_a_question_leaks_through_its_answer(leaky: Project) -> None:
    """With a table of answers alone, as `init` writes it, a prompt that was asked in the chats is refused."""
    question, reply = PROMPTS["copied"], answer(PROMPTS["copied"])
    rows = [message(1, question), message(2, reply, "assistant"), message(3, own_words()[0], "assistant")]
    (leaky.bench / "chats.jsonl").write_text("".join(rows), encoding="utf-8")
    leaky.edit("chats.jsonl}, min_count", "chats.jsonl}, roles: [assistant], min_count")
    result = leaky.run("--benchmark-quiet")
    result.assert_outcomes(passed=8, errors=1)
    result.stdout.fnmatch_lines(["*prompt 'copied' is in the corpus of table 'chats': a run of 63 tokens*"])
    assert "in message 1 of session 'secret plans' (line 1 of chats.jsonl)" in result.stdout.str()


def test_a_start_of_leaks_alone_gets_no_server(leaky: Project) -> None:
    """With nothing left to measure, no server is started; each cell says which prompts leak, and where."""
    write(leaky, *own_words(), PROMPTS["copied"], PROMPTS["fresh"])
    result = leaky.run("--benchmark-quiet", "-k", "copied or fresh")
    result.assert_outcomes(passed=4, errors=2)
    text = result.stdout.str()
    assert "all 2 prompts are in the corpus of table 'chats'" in text
    assert "fresh: a run of" not in text
    assert (
        "fresh: 100% of its 8-grams, in message 11 of session 'secret plans' (line 5 of chats.jsonl)" in text
    )
    assert "copied: a run of 63 tokens, in message 10 of session" in text
    assert not list((leaky.path / ".ngram").rglob(f"*{CONFIG}*.log"))


def test_without_that_message_it_is_measured(leaky: Project) -> None:
    """The record says of each prompt what is in the corpus; of one that is too short it is not known."""
    write(leaky, *own_words())
    result = leaky.run("--benchmark-quiet", f"--benchmark-json={leaky.path / 'run.json'}")
    assert result.ret == 0, result.stdout.str()
    found = {
        p: r["table"]["leakage"] for p, r in cells(json.loads((leaky.path / "run.json").read_text())).items()
    }
    assert set(found) == set(PROMPTS)
    assert found["fresh"]["share"] == found["copied"]["share"] == 0.0
    assert found["brief"]["share"] is None
    assert 0 < found["copied"]["run"] < 8
    (line,) = [line for line in result.outlines if "is in the corpus of the table" in line]
    assert "no prompt of 3 is in the corpus of the table: longest run" in line
    assert "no 8-gram; too short to tell, fewer than 8 tokens: 1" in line


def test_bounds_are_the_matrixs(leaky: Project) -> None:
    """Wider bounds let the same prompt through, and the line below the table still tells it."""
    leaky.edit("min_count: 1}", "min_count: 1, leakage: {max_run_tokens: 100, max_share: 1}}")
    result = leaky.run("--benchmark-quiet")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(
        ["*longest run 63 tokens, at most 100% of 8-grams; above half of a bound: copied*"]
    )


def test_a_ready_table_has_no_corpus(leaky: Project) -> None:
    """Nobody can look into it: a warning, a line, and null in the record, never 0."""
    leaky.run("--benchmark-quiet", "-k", CONFIG)
    (table,) = (leaky.cache / "tables").glob("*.lcs")
    table.rename(leaky.bench / "ready.lcs")
    leaky.edit("chats: {corpus: {path: chats.jsonl}, min_count: 1}", "chats: {file: {path: ready.lcs}}")
    result = leaky.run("--benchmark-quiet", f"--benchmark-json={leaky.path / 'run.json'}")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(
        ["warning: tables.chats: a ready file, so whether prompts are in its corpus is not known"]
    )
    result.stdout.fnmatch_lines(["*whether its prompts are in the corpus of the table is not known*"])
    data = json.loads((leaky.path / "run.json").read_text())
    assert [record["table"]["leakage"] for record in cells(data).values()] == [None] * 3


def test_what_was_found_is_kept(leaky: Project) -> None:
    """A second run tokenizes nothing: it starts no server for it, and comes to the same end."""
    leaky.run("--benchmark-quiet")
    logs = leaky.path / ".ngram"
    before = set(logs.rglob("*tokenize*.log"))
    assert before
    result = leaky.run("--benchmark-quiet")
    result.assert_outcomes(passed=8, errors=1)
    assert set(logs.rglob("*tokenize*.log")) == before
    (kept,) = (leaky.cache / "tables").glob("*.leakage.json")
    assert SPOKEN["en"][40].strip() not in kept.read_text().split("at")[0]


def test_echo_prompts_stand_apart(leaky: Project) -> None:
    """Taken out of the corpus, measured last, not refused, in no row, without a word of theirs in an id."""
    leaky.edit("n_predict: 48}", "n_predict: 48, echo: {chats: 2}}")
    result = leaky.run("--benchmark-quiet", f"--benchmark-json={leaky.path / 'run.json'}")
    result.assert_outcomes(passed=14, errors=1)
    text = result.stdout.str()
    assert "tiny: 3 prompts, temperature 0" in text
    assert "tiny: 2 echo prompts out of the table's corpus, temperature 0; in no figure above" in text
    assert "1 of 3 prompts are in the corpus of the table: copied" in text
    (line,) = [line for line in result.outlines if line.strip().startswith(f"{CONFIG}: echo ")]
    echo, real = line.split("; real ")
    assert all("accept @ coverage" in part for part in (echo, real))

    data = json.loads((leaky.path / "run.json").read_text())
    by_server: dict[int, list[str]] = {}
    for bench in data["benchmarks"]:
        record = bench["extra_info"]["ngram"]
        by_server.setdefault(record["server"]["serial"], []).append(record["cell"]["prompt_set"])
    assert len(by_server) == 3
    assert all(sets == ["words"] * (len(sets) - 2) + ["echo"] * 2 for sets in by_server.values())
    of_echo = [record for prompt, record in cells(data).items() if prompt.startswith("echo-")]
    assert [record["table"]["leakage"]["share"] for record in of_echo] == [1.0, 1.0]
    prompts = {prompt["prompt"]: unpack_tokens(prompt["tokens"]) for prompt in data["ngram"]["prompts"]}
    assert prompts.keys() == {*PROMPTS, "echo-1", "echo-2"}
    assert len(prompts["echo-1"]) > 32, "what was asked is in the record as ids, like every prompt"
    said = f"{text}{json.dumps(data, ensure_ascii=False)}"
    assert not any(" ".join(each.split()[:4]) in said for each in (*own_words(), PROMPTS["copied"]))


def test_echo_needs_a_corpus_that_has_prompts(leaky: Project) -> None:
    """A corpus with fewer messages of a fitting length is told before anything is measured."""
    leaky.edit("n_predict: 48}", "n_predict: 48, echo: {chats: 99}}")
    result = leaky.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["*profiles.smoke.echo.chats: the corpus has * messages that can be an echo prompt*"]
    )
