"""A small matrix that uses every section."""

from __future__ import annotations

import pytest

GOOD = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf, flags: "-c 512"}
  beta: {generate: {target: 0.5}, configs: [none, mtp1], prompt_sets: [chat]}
configs:
  none: {}
  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}
  ngram-cache+table: {types: [ngram-cache], table: demo}
tables:
  demo: {corpus: {path: c.jsonl}}
prompt_sets:
  chat: {path: chat.yaml}
  code: {package: pkg/code.yaml}
profiles:
  smoke: {blocks: 2, n_predict: 8, prompts: {chat: 1}}
"""


@pytest.fixture
def good() -> str:
    return GOOD
