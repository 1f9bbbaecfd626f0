"""Prompt sets: messages, the one system prompt, and tool schemas."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.names import check_id, check_no_config_word
from pytest_ngram.matrix.strict import fail, mapping, struct, unknown
from pytest_ngram.matrix.yaml_text import load


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class PromptSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt. `tools` names the schemas that go with it; `kind` groups prompts in reports."""

    id: str
    kind: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()


class PromptSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt set. `tools` is the file of the tool schemas, beside the set's own file."""

    set: str
    system: str
    prompts: tuple[PromptSpec, ...]
    tools: str | None = None

    def chat(self, prompt: PromptSpec) -> list[dict[str, str]]:
        """Return the messages to send, the set's system prompt first where it has one."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return system + [{"role": m.role, "content": m.content} for m in prompt.messages]


class _RawSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    set: str
    system: str
    prompts: tuple[Any, ...]
    tools: str | None = None


def decode_prompt_set(text: str, file: str, *, name: str, words: frozenset[str]) -> PromptSet:
    """Read a prompt set.

    Args:
        text: the file's content.
        file: its name, for messages.
        name: what the matrix calls the set; the file has to agree.
        words: the config words that no prompt id may contain.

    Raises:
        MatrixError: names file, key path and the allowed values.
    """
    raw = struct(file, "", load(text, file), _RawSet)
    if raw.set != name:
        fail(file, "set", f"is {raw.set!r}", checked=[f"the matrix calls it {name!r}"], fix="make them agree")
    prompts = tuple(struct(file, f"prompts[{i}]", p, PromptSpec) for i, p in enumerate(raw.prompts))
    if not prompts:
        fail(file, "prompts", "is empty", fix="write at least one prompt")
    seen: set[str] = set()
    for i, prompt in enumerate(prompts):
        path = f"prompts[{i}].id"
        check_id(file, path, prompt.id)
        check_no_config_word(file, path, "prompt id", prompt.id, words)
        if prompt.id in seen:
            fail(file, path, f"{prompt.id!r} stands twice", fix="give each prompt an id of its own")
        seen.add(prompt.id)
        if prompt.tools and raw.tools is None:
            fail(file, f"prompts[{i}].tools", "names tools, but the set has no `tools:` file", fix="add it")
        if not prompt.messages:
            fail(file, f"prompts[{i}].messages", "is empty", fix="write at least one user turn")
    return PromptSet(set=raw.set, system=raw.system, prompts=prompts, tools=raw.tools)


def decode_tools(data: bytes, file: str) -> dict[str, dict[str, Any]]:
    """Read tool schemas: a JSON list in the format of chat APIs, returned by function name.

    Raises:
        MatrixError: not JSON, or an entry without `function.name`.
    """
    try:
        entries = msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise MatrixError(
            f"{file}: not a JSON list of tools: {error}", fix="write a list of objects"
        ) from error
    tools: dict[str, dict[str, Any]] = {}
    for i, entry in enumerate(entries):
        function = mapping(file, f"[{i}].function", entry.get("function"))
        tool = function.get("name")
        if not isinstance(tool, str):
            fail(file, f"[{i}].function.name", "is missing", fix="name the function")
        tools[tool] = entry
    return tools


def tools_of(prompt: PromptSpec, tools: dict[str, dict[str, Any]], file: str) -> list[dict[str, Any]]:
    """Return the schemas that a prompt offers. Raises `MatrixError` for a name that is not there."""
    for name in prompt.tools:
        if name not in tools:
            unknown(file, f"prompts.{prompt.id}.tools", "tool", name, tools)
    return [tools[name] for name in prompt.tools]
