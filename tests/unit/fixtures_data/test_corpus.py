"""The demo corpus: its format, its languages, and that no prompt echoes it."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import yaml

FIXTURES = Path(__file__).parents[3] / "fixtures"
CORPUS = FIXTURES / "corpus" / "demo.jsonl"
RUN_WORDS = 8
RUN_CHARS = 40
MAX_MESSAGE_BYTES = 8 * 1024
PROMPT_SETS = ("general", "agentic", "instrument")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: Literal[1]
    session: str
    seq: int
    role: Literal["user", "assistant", "system", "tool"]
    content: str
    ts: str


@cache
def corpus() -> tuple[Message, ...]:
    lines = CORPUS.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Message) for line in lines)


@cache
def sessions() -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for message in corpus():
        found.setdefault(message.session, []).append(message)
    return found


def is_russian(text: str) -> bool:
    return len(re.findall("[а-яё]", text.lower())) > len(re.findall("[a-z]", text.lower()))


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def word_runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + RUN_WORDS]) for i in range(len(words) - RUN_WORDS + 1)}


def char_runs(text: str) -> set[str]:
    line = folded(text)
    return {line[i : i + RUN_CHARS] for i in range(len(line) - RUN_CHARS + 1)}


def prompt_texts() -> list[tuple[str, str]]:
    """Return (name, text) of all that a prompt puts before the model: turns, system prompt, tool schemas."""
    texts = []
    for name in PROMPT_SETS:
        document = yaml.safe_load((FIXTURES / "prompts" / f"{name}.yaml").read_text(encoding="utf-8"))
        texts.append((f"{name}-system", document["system"]))
        texts += [(p["id"], m["content"]) for p in document["prompts"] for m in p["messages"]]
    tools = json.loads((FIXTURES / "prompts" / "tools.json").read_text(encoding="utf-8"))
    return [*texts, *((t["function"]["name"], json.dumps(t)) for t in tools)]


def test_size_is_a_demo_corpus() -> None:
    """Large enough for a table that hits, small enough for a wheel: 300 to 900 KB."""
    assert 300_000 <= CORPUS.stat().st_size < 900_000


def test_lines_are_messages() -> None:
    """Every line decodes strictly as JSON of version 1 and holds text; the file ends with a line end."""
    assert CORPUS.read_bytes().endswith(b"\n")
    assert all(message.content.strip() for message in corpus())


def test_both_languages_have_their_share() -> None:
    """English and Russian messages each make up a fifth of the content's bytes or more."""
    total = sum(len(m.content.encode()) for m in corpus())
    russian = sum(len(m.content.encode()) for m in corpus() if is_russian(m.content))
    assert 0.2 <= russian / total <= 0.8


def test_cyrillic_letters_alone_make_a_fifth() -> None:
    """The Russian share is Russian words, not code in Russian messages."""
    total = sum(len(m.content.encode()) for m in corpus())
    letters = sum(len(re.findall("[а-яё]", m.content.lower())) for m in corpus())
    assert 2 * letters >= 0.2 * total


def test_sessions_are_whole_conversations() -> None:
    """A session is 2 to 12 messages numbered from 0, in file order, with questions and answers."""
    for name, messages in sessions().items():
        assert 2 <= len(messages) <= 12, name
        assert [m.seq for m in messages] == list(range(len(messages))), name
        assert {"user", "assistant"} <= {m.role for m in messages}, name
        assert messages[-1].role == "assistant", name


def test_sessions_are_not_interleaved() -> None:
    """A reader may stream the file: the messages of a session are neighbours."""
    changes = [a.session for a, b in pairwise(corpus()) if a.session != b.session]
    assert len(changes) == len(sessions()) - 1


def test_timestamps_grow() -> None:
    """Timestamps are UTC in ISO form and strictly increase through the file."""
    times = [datetime.strptime(m.ts, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) for m in corpus()]
    assert all(a < b for a, b in pairwise(times))


def test_no_message_is_a_wall() -> None:
    """No message exceeds 8 KB."""
    assert max(len(m.content.encode()) for m in corpus()) <= MAX_MESSAGE_BYTES


def test_no_long_message_stands_twice() -> None:
    """Counts come from different texts: no content of over 200 characters is repeated."""
    counts = Counter(m.content for m in corpus() if len(m.content) > 200)
    assert [text[:60] for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(
    "pattern",
    [r"[\w.+-]+@[\w-]+\.\w", r"/(home|Users)/\w", r"https?://\w", r"\b[0-9a-fA-F]{32,}\b", r"PRIVATE KEY"],
    ids=["address", "own-folder", "link", "long-hex", "private-key"],
)
def test_nothing_personal(pattern: str) -> None:
    """No e-mail address, home folder, link, long hexadecimal secret or key stands in the corpus."""
    found = [match[0] for m in corpus() if (match := re.search(pattern, m.content))]
    assert found == []


@cache
def shared_runs() -> tuple[set[tuple[str, ...]], set[str]]:
    """Return the runs of words and of characters that stand in any prompt and in the corpus."""
    words = set().union(*(word_runs(text) for _, text in prompt_texts()))
    chars = set().union(*(char_runs(text) for _, text in prompt_texts()))
    in_words = set().union(*(words & word_runs(m.content) for m in corpus()))
    in_chars = set().union(*(chars & char_runs(m.content) for m in corpus()))
    return in_words, in_chars


@pytest.mark.parametrize(("name", "text"), prompt_texts(), ids=[name for name, _ in prompt_texts()])
def test_prompt_does_not_echo_the_corpus(name: str, text: str) -> None:
    """A table gains nothing from a prompt: no run of 8 words or 40 characters is in both."""
    words, chars = shared_runs()
    assert word_runs(text) & words == set(), name
    assert char_runs(text) & chars == set(), name


def test_an_echo_would_be_found() -> None:
    """The comparison has teeth: a passage with other case and line ends shares runs of both kinds."""
    passage = max((m.content for m in corpus()), key=len)[:400]
    disguised = passage.upper().replace(" ", "\n")
    assert word_runs(disguised) & word_runs(passage)
    assert char_runs(disguised) & char_runs(passage)
