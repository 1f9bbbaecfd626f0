"""Echo prompts: whole messages of the table's corpus, none that is sent anyway, the same at every run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.prompts import Message, PromptSet, PromptSpec
from pytest_ngram.measure.echo import MAX_CHARS, MIN_CHARS, read_echo

MATRIX = """
version: 1
warmup: hello there
models: {alpha: {path: a.gguf}}
configs:
  none: {}
  ngram-cache+chats: {types: [ngram-cache], table: chats}
tables:
  chats: {corpus: {path: chats.jsonl}}
prompt_sets: {chat: {path: chat.yaml}}
profiles:
  smoke: {blocks: 1, n_predict: 8, echo: {chats: 2}}
"""


def text(letter: str, chars: int = MIN_CHARS) -> str:
    return letter * chars


def write(folder: Path, *messages: tuple[str, str]) -> None:
    rows = [
        {"v": 1, "session": "s", "seq": i, "role": role, "content": content}
        for i, (role, content) in enumerate(messages)
    ]
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read(folder: Path, matrix: str = MATRIX, *, real: str = "real") -> dict[str, str]:
    """The echo prompts' texts by id; the only real prompt is `p`."""
    prompt = PromptSpec(id="p", kind="k", messages=(Message("user", real),))
    spec = decode_matrix(matrix, "m.yaml")
    others = {"chat": PromptSet(set="chat", system="", prompts=(prompt,))}
    found, ids = read_echo(spec, "smoke", ["alpha"], folder, others=others, file="m.yaml")
    assert found is not None
    assert ids == {"chats": [each.id for each in found.prompts]}
    return {each.id: each.messages[0].content for each in found.prompts}


def test_questions_come_first(tmp_path: Path) -> None:
    """A prompt is what somebody asked; answers are taken where too little was asked."""
    write(
        tmp_path, ("assistant", text("a")), ("user", text("b")), ("assistant", text("c")), ("user", text("d"))
    )
    assert set(read(tmp_path).values()) == {text("b"), text("d")}
    write(tmp_path, ("assistant", text("a")), ("user", text("b")))
    assert read(tmp_path) == {"echo-1": text("b"), "echo-2": text("a")}


def test_the_draw_is_that_of_the_seed(tmp_path: Path) -> None:
    """The same matrix takes the same prompts, and another seed may take others."""
    write(tmp_path, *(("user", text(chr(97 + i))) for i in range(26)))
    drawn = [read(tmp_path, f"seed: {seed}\n{MATRIX}") for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({tuple(each.values()) for each in drawn}) > 1


@pytest.mark.parametrize(
    "content",
    [text("a", MIN_CHARS - 1), text("a", MAX_CHARS + 1), text("r"), text("x") + "hello there", text("b")],
    ids=["short", "long", "a real prompt", "the warm-up", "said before"],
)
def test_what_would_be_no_fair_echo_is_not_taken(tmp_path: Path, content: str) -> None:
    """Nothing that is sent anyway, nothing twice, nothing that fits no context: then there are too few."""
    write(tmp_path, ("user", text("b")), ("user", content))
    with pytest.raises(MatrixError, match="the corpus has 1 messages that can be an echo prompt"):
        read(tmp_path, real=text("r"))


def test_only_messages_of_the_table_are_taken(tmp_path: Path) -> None:
    """The table's own choice of messages counts, such as its roles."""
    write(tmp_path, ("assistant", text("a")), ("user", text("b")), ("assistant", text("c")))
    found = read(tmp_path, MATRIX.replace("chats.jsonl}}", "chats.jsonl}, roles: [assistant]}"))
    assert set(found.values()) == {text("a"), text("c")}


def test_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    """A prompt id is part of the test id."""
    write(tmp_path, ("user", text("a")), ("user", text("b")))
    prompt = PromptSpec(id="echo-2", kind="k", messages=(Message("user", "hm"),))
    others = {"chat": PromptSet(set="chat", system="", prompts=(prompt,))}
    spec = decode_matrix(MATRIX, "m.yaml")
    with pytest.raises(MatrixError, match="prompt id 'echo-2' is taken"):
        read_echo(spec, "smoke", ["alpha"], tmp_path, others=others, file="m.yaml")
