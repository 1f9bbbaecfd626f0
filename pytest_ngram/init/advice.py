"""What is worth measuring on a model, told by its file: configs, prompt sets, flags, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_ngram.matrix.spec import ModelSpec
from pytest_ngram.measure.unfit import takes_tools
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.models.memory import anonymous_need_bytes

# The longest shipped prompt of each set, its tools, the template and 256 tokens fit with room to spare.
_CONTEXT = {"general": 4096, "agentic": 8192}
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_FALLBACK_ID = "own-weights"  # `model` holds `mod`, a config word
_MAX_ID = 48


@dataclass(frozen=True)
class Host:
    """What the machine has: cores without their hyper-threads, and bytes that can be had without swapping."""

    cores: int
    available_bytes: int


@dataclass(frozen=True)
class Advice:
    """What to write for a model.

    Args:
        configs: ids, the baseline first.
        prompt_sets: ids.
        flags: llama-server's own.
        need_bytes: a lower bound of the server's own memory with these flags, weights not counted.
        reasons: one sentence each.
    """

    configs: tuple[str, ...]
    prompt_sets: tuple[str, ...]
    flags: str
    need_bytes: int
    reasons: tuple[str, ...]


def advise(facts: ModelFacts, host: Host, table_config: str | None) -> Advice:
    """Return what is worth running on a model.

    Args:
        facts: of its file.
        host: of this machine.
        table_config: the config with a table of the user's own chats, if there is one.
    """
    prompt_sets = ("general", "agentic") if takes_tools(facts, ModelSpec()) else ("general",)
    context = min(max(_CONTEXT[name] for name in prompt_sets), facts.n_ctx_train)
    flags, need_bytes = _flags(facts, host, context)
    configs = _configs(facts, table_config)
    return Advice(configs, prompt_sets, flags, need_bytes, tuple(_reasons(facts, table_config)))


def model_id(stem: str, words: Iterable[str]) -> str:
    """Return an id for a model file, without the config words that a model id may not contain.

    `Qwen3.6-35B-A3B-MTP-IQ3_XXS-00001-of-00002` gives `qwen3.6-35b-a3b-iq3_xxs`.
    """
    words = tuple(words)
    parts = re.split(r"([^a-z0-9]+)", _SHARD.sub("", stem).lower())
    name = ""
    for i, part in enumerate(parts):
        if i % 2 == 0 and part and not any(word in part for word in words):
            joint = parts[i - 1][0] if i else ""
            name += f"{joint if joint in '._+-' else '-'}{part}" if name else part
    name = name[:_MAX_ID].rstrip("._+-")
    return name if name and not any(word in name for word in words) else _FALLBACK_ID


def _configs(facts: ModelFacts, table_config: str | None) -> tuple[str, ...]:
    configs = ["none"]
    if facts.nextn:
        configs += ["mtp1", "mtp2", "mtp3", "ngram-simple", "mtp1+ngram-simple"]
    else:
        configs += ["ngram-simple", "ngram-map-k4v"]
    if table_config is not None:
        configs += ["ngram-cache", table_config]
    return tuple(configs)


def _reasons(facts: ModelFacts, table_config: str | None) -> Iterable[str]:
    if facts.nextn:
        yield "mtp1, 2, 3: the file has an MTP block; the number is the longest draft (n_max)"
    else:
        yield "no mtp…: the file has no MTP block; the ngram types draft from the text so far"
    if facts.recurrent_layers:
        yield f"{facts.recurrent_layers} layers are recurrent: long drafts that are rejected cost two decodes"
    if table_config is not None:
        yield f"what your chats add is {table_config} against ngram-cache"


def _flags(facts: ModelFacts, host: Host, context: int) -> tuple[str, int]:
    """Take a quantised cache only where the full one would fill half of what is free.

    `-ub` stays at its default of 512: a verify batch has n_max + 2 tokens at most.
    """
    flags = f"-c {context} -t {host.cores}"
    mtp = facts.nextn > 0
    need = anonymous_need_bytes(facts, context, mmap=True, mtp=mtp)
    if need * 2 <= host.available_bytes or any(n % 32 for n in (facts.key_length, facts.value_length)):
        return flags, need
    small = anonymous_need_bytes(facts, context, "q8_0", "q8_0", mmap=True, mtp=mtp)
    return f"{flags} -fa on -ctk q8_0 -ctv q8_0", small
