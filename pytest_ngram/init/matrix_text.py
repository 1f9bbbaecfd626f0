"""The text of a user's `matrix.yaml`: the shipped one, with a model and a table of their own put in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.init.advice import Advice
from pytest_ngram.models.gguf_file import ModelFacts

TABLE = "chats"
TABLE_CONFIG = f"ngram-cache+{TABLE}"
_PLAIN = re.compile(r"[A-Za-z0-9./][A-Za-z0-9./_+~-]*")


@dataclass(frozen=True)
class OwnModel:
    """A model to put in: its id, the facts of its file, and what to run on it."""

    name: str
    facts: ModelFacts
    advice: Advice


@dataclass(frozen=True)
class OwnCorpus:
    """A chat corpus to put in.

    Args:
        path: the file.
        messages: that can be used.
        roles: to count; empty for all.
        bad_lines: that cannot be used, and are left out.
    """

    path: Path
    messages: int
    roles: tuple[str, ...]
    bad_lines: int


def matrix_text(template: str, folder: Path, model: OwnModel | None, corpus: OwnCorpus | None) -> str:
    """Return the matrix.

    Args:
        template: the shipped matrix.
        folder: where the matrix will lie; files below its parent are named relative to it.
        model: to put first, or None.
        corpus: to build a table from, or None.
    """
    if corpus is not None:
        template = _after(template, "tables:", _table_lines(corpus, folder))
        config = f"  {TABLE_CONFIG}: {{types: [ngram-cache], table: {TABLE}}}"
        template = _after(template, "  ngram-cache+table:", [config])
    if model is not None:
        template = _after(template, "models:", _model_lines(model, folder))
    return template


def _after(text: str, start: str, lines: Sequence[str]) -> str:
    """Put lines after the line that starts so."""
    found = re.search(rf"(?m)^{re.escape(start)}.*\n", text)
    if found is None:
        raise ValueError(f"the shipped matrix has no line {start!r}")
    return text[: found.end()] + "".join(f"{line}\n" for line in lines) + text[found.end() :]


def _model_lines(model: OwnModel, folder: Path) -> list[str]:
    advice, facts = model.advice, model.facts
    tools = (
        ""
        if "agentic" in advice.prompt_sets
        else "   # agentic is left out: its chat template takes no tools"
    )
    return [
        f"  {model.name}:",
        f"    # {describe(facts)}",
        f"    path: {_scalar(_place(facts.path, folder))}",
        f"    # KV cache and state: {advice.need_bytes / 2**20:.0f} MiB. -t: cores of this host. With a GPU",
        "    # add -ngl 99, and --n-cpu-moe 999 for experts that do not fit; a binary takes all its flags",
        f"    flags: {advice.flags}",
        *(f"    # {reason}" for reason in advice.reasons),
        f"    configs: [{', '.join(advice.configs)}]",
        f"    prompt_sets: [{', '.join(advice.prompt_sets)}]{tools}",
        "    # n_predict: 128     # tokens a request; left out: what the profile says",
    ]


def describe(facts: ModelFacts) -> str:
    """Return a line on a model file."""
    experts = f", {facts.n_expert} experts" if facts.n_expert else ""
    recurrent = f" ({facts.recurrent_layers} recurrent)" if facts.recurrent_layers else ""
    mtp = f"{facts.nextn} MTP" if facts.nextn else "no MTP block"
    size = (
        f"{facts.size_bytes / 1e9:.2f} GB" if facts.size_bytes > 1e8 else f"{facts.size_bytes / 1e6:.1f} MB"
    )
    return f"{facts.arch}, {size}: {facts.n_layer} layers{recurrent}, {mtp}{experts}"


def _table_lines(corpus: OwnCorpus, folder: Path) -> list[str]:
    lines = [
        f"  {TABLE}:                  # {corpus.messages} messages",
        f"    corpus: {{path: {_scalar(_place(corpus.path, folder))}}}",
    ]
    if corpus.roles:
        lines.append(
            f"    roles: [{', '.join(corpus.roles)}]   # what a model answers with is what it drafts"
        )
    if corpus.bad_lines:
        lines.append(f"    on_bad_line: count    # {corpus.bad_lines} lines cannot be used")
    return lines


def _place(path: Path, folder: Path) -> str:
    """Return a path relative to the matrix where both lie in one repository, else absolute."""
    path = path.absolute()
    return os.path.relpath(path, folder) if path.is_relative_to(folder.parent) else str(path)


def _scalar(text: str) -> str:
    """Return a YAML scalar: as it is where it is plain, else in double quotes."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
