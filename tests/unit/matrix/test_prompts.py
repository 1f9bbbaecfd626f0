"""Prompt sets are read whole, or the error names file, key path and what is allowed."""

from __future__ import annotations

import pytest

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.prompts import decode_prompt_set, decode_tools, tools_of

GOOD = """
set: chat
system: Be brief.
tools: tools.json
prompts:
  - id: hello
    kind: short
    messages: [{role: user, content: "Hello"}]
  - id: shell
    kind: terminal
    messages: [{role: user, content: "List"}, {role: assistant, content: "Done"}]
    tools: [run]
"""
TOOLS = b'[{"type": "function", "function": {"name": "run"}}]'


def decode(text: str) -> object:
    return decode_prompt_set(text, "p.yaml", name="chat", words=frozenset({"mtp", "cache"}))


def test_a_good_set_is_read_whole() -> None:
    """Prompts in order, the system prompt first in each chat, tools by name."""
    found = decode_prompt_set(GOOD, "p.yaml", name="chat", words=frozenset())
    assert [prompt.id for prompt in found.prompts] == ["hello", "shell"]
    assert found.chat(found.prompts[0]) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    tools = decode_tools(TOOLS, "tools.json")
    assert [tool["function"]["name"] for tool in tools_of(found.prompts[1], tools, "tools.json")] == ["run"]


def test_an_empty_system_prompt_is_left_out() -> None:
    """Templates would render an empty system turn."""
    found = decode_prompt_set(GOOD.replace("Be brief.", '""'), "p.yaml", name="chat", words=frozenset())
    assert found.chat(found.prompts[0])[0]["role"] == "user"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("set: chat", "set: code", "set"),
        ("system: Be brief.\n", "", "(top level)"),
        ("id: hello", "id: cache-me", "prompts[0].id"),
        ("id: hello", "id: shell", "prompts[1].id"),
        ("id: hello", "id: Hello", "prompts[0].id"),
        ("kind: short", "knid: short", "prompts[0].knid"),
        ('role: user, content: "Hello"', 'role: human, content: "Hello"', "prompts[0].messages[0].role"),
        ('role: user, content: "Hello"', 'role: user, txt: "Hello"', "prompts[0].messages[0].txt"),
        ('[{role: user, content: "Hello"}]', "[]", "prompts[0].messages"),
        ('[{role: user, content: "Hello"}]', "[hi]", "prompts[0].messages[0]"),
        ('[{role: user, content: "Hello"}]', "hi", "prompts[0].messages"),
        ("tools: tools.json\n", "", "prompts[1].tools"),
    ],
)
def test_a_wrong_set_is_refused_with_the_path(old: str, new: str, path: str) -> None:
    """Unknown keys, values of another type and contradictions are errors with their key path."""
    assert old in GOOD
    with pytest.raises(MatrixError) as caught:
        decode(GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"p.yaml: {path}: ")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'[{"type": "function"}]', b'[{"function": {"nme": "run"}}]']
)
def test_a_wrong_tools_file_is_refused(data: bytes) -> None:
    """Not a list of functions with names: an error that names the file."""
    with pytest.raises(MatrixError, match=r"^tools\.json: "):
        decode_tools(data, "tools.json")


def test_an_unknown_tool_is_refused() -> None:
    """The error lists the tools that there are."""
    found = decode_prompt_set(GOOD.replace("[run]", "[rnu]"), "p.yaml", name="chat", words=frozenset())
    with pytest.raises(MatrixError, match="unknown tool 'rnu'"):
        tools_of(found.prompts[1], decode_tools(TOOLS, "tools.json"), "tools.json")
