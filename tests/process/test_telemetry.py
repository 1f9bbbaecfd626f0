"""The step trace of a real server: it is asked for, and what it tells adds up."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import Start
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.servers import Servers
from pytest_ngram.record import from_builtins

MATRIX = """
version: 1
warmup: the model
hang_after_s: 60
models:
  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}
configs:
  none: {}
  mtp3: {types: [draft-mtp], flags: --spec-draft-n-max 3}
  simple: {types: [ngram-simple], flags: --spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 12}
  stack:
    types: [draft-mtp, ngram-simple]
    flags: --spec-draft-n-max 3 --spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 12
prompt_sets: {words: {path: words.yaml}}
profiles: {smoke: {blocks: 1, n_predict: 8}}
"""


@pytest.mark.parametrize("config", ["none", "mtp3", "simple", "stack"])
def test_a_measured_server_is_traced_and_its_steps_add_up(
    config: str, session_cache: Path, tmp_path: Path
) -> None:
    """LLAMA_TRACE=1 reaches the server; the steps of a request make its generation time within 2 %."""
    matrix = decode_matrix(MATRIX, "m.yaml")
    factory = Factory(choose(None), cache_dir=session_cache)
    servers = Servers(matrix, Models(matrix, tmp_path, session_cache), factory, logs=tmp_path)
    server = servers.serve(Start("tiny", config, 0.0, 1, 0), None)
    try:
        assert server.engine.pid is not None
        assert psutil.Process(server.engine.pid).environ()["LLAMA_TRACE"] == "1"
        prompt = server.client.tokenize("def return ( ) : import", parse_special=False, add_special=True)
        request = CompletionRequest(prompt=prompt, n_predict=200, temperature=0.0, seed=1)
        one = measure(server, request, hang_after_s=60)
    finally:
        server.stop()
    told = one.telemetry
    assert told is not None
    assert told.unread is None
    assert told.cost is not None
    assert told.cost.unexplained is None
    assert one.steps is not None
    assert told.tokens_per_step == pytest.approx(((one.predicted_n or 0) - 1) / one.steps)
    assert (told.cost.verify_ms > 0) == (config != "none")
    assert (told.cost.draft_ms > 0) == (config != "none")
    assert 0 < (told.server_share or 0) <= 1


def test_a_record_from_before_the_trace_was_read_has_none() -> None:
    """`telemetry` is absent from older records, and null then."""
    names = (
        "seed tokens text_sha256 prompt_n prompt_ms predicted_n predicted_ms wall_s drafted accepted steps "
        "verify_steps replays accepted_per_pos n_decode stop"
    )
    round_ = {**dict.fromkeys(names.split()), "status": "ok", "seed": 1}
    cell = {"model": "m", "config": "none", "prompt": "p", "prompt_set": "s", "temperature": 0.0, "block": 1}
    record = {
        **dict.fromkeys(("model", "engine", "server", "memory", "host", "table")),
        "schema": 1,
        "cell": {**cell, "pass": "first", "position": 0},
        "rounds": [round_],
        "outcome": {"status": "ok"},
    }
    assert from_builtins(record).rounds[0].telemetry is None
