"""The drafters do offline what a native llama-server and `llama-lookup-stats` do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.drafting.counts import NONE
from pytest_ngram.drafting.lookup_stats import OUTSIDE, lookup_stats
from pytest_ngram.drafting.slot import Request, Slot
from pytest_ngram.drafting.streams import draft_steps
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.log_reader import requests
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.replay.recorded import policy_of
from pytest_ngram.replay.tables import load_counts
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import encode

CREATE, STATS = "llama-lookup-create", "llama-lookup-stats"
Run = Callable[..., str]
Serve = Callable[[Path, list[str]], BinaryProcess]

TYPES = {
    "ngram-simple": "--spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 3",
    "ngram-map-k": "--spec-ngram-map-k-size-n 2 --spec-ngram-map-k-size-m 5",
    "ngram-map-k4v": "--spec-ngram-map-k4v-size-n 2 --spec-ngram-map-k4v-size-m 4",
    "ngram-mod": "--spec-ngram-mod-n-match 2 --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 9",
    "ngram-cache": "-lcs {table}",
    "ngram-cache,ngram-mod,ngram-map-k": "-lcs {table} --spec-ngram-mod-n-match 4 --spec-ngram-mod-n-min 1 "
    "--spec-ngram-map-k-size-n 3 --spec-ngram-map-k-size-m 6",
}
TEXTS = (
    "Count: one two three four, one two three four, one two three four, one",
    "time with fast more test often answer after before large where without because test under of with token",
    "Say this again and again: the kettle is on the stove, the kettle is on the stove. the kettle is",
    "Count: one two three four, one",
    "def add(a, b): return a + b\ndef sub(a, b): return a - b\ndef mul(a, b): return",
)


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(
    ("model", "n_predict"), [("model_path", 160), ("text_model", 48)], ids=["hand-built", "SmolLM2"]
)
def test_every_step_is_that_of_the_server(  # noqa: PLR0917 - pytest names what it gives
    model: str, n_predict: int, types: str, request: pytest.FixtureRequest, serve: Serve, tmp_path: Path
) -> None:
    """Several requests on one server, one shorter than the one before: drafted and accepted, step by step.

    The hand-built model has recurrent layers, so its rejections replay; SmolLM2 has none.
    """
    path: Path = request.getfixturevalue(model)
    table = tmp_path / "table.lcs"
    rng = np.random.default_rng(1)
    table.write_bytes(encode(count_bigrams([rng.integers(0, 300, 4000).tolist()])))
    flags = ["--spec-type", types, *TYPES[types].format(table=table).split()]
    with serve(path, flags) as server, Client(server.url) as client:
        asked = [_ask(client, text, n_predict) for text in TEXTS]
        policy = policy_of(server.describe())
        assert policy is not None
    slot = Slot(
        policy,
        longest=max(len(each.tokens) for each in asked),
        total=sum(len(each.tokens) for each in asked),
        restores=bool(inspect(path).recurrent_layers),
        static=load_counts(table) if "ngram-cache" in types else None,
    )
    log = server.log_path.read_text(encoding="utf-8", errors="replace")
    told = [
        draft_steps((step.drafted, step.accepted, step.restored) for step in each.steps)
        for each in requests(log.splitlines())
        if each.timings
    ]
    replayed = [slot.replay(each) for each in asked]
    assert [each.pairs for each in replayed] == told
    assert sum(each.drafted for each in replayed) > 0


def _ask(client: Client, text: str, n_predict: int) -> Request:
    prompt = client.tokenize(text, parse_special=False, add_special=False)
    asked = CompletionRequest(prompt=tuple(prompt), n_predict=n_predict, temperature=0, seed=1)
    answer = client.completion(asked)
    tokens = np.array([*prompt, *answer.tokens], np.int64)
    return Request(tokens, len(prompt), n_predict, answer.stop_type == "eos")


def _said(run: Run, *arguments: object) -> tuple[int, int]:
    """Drafted and accepted as the tool prints them."""
    out = run(STATS, "-t", 1, "--no-escape", *arguments)
    drafted, accepted = (re.search(rf"{name}\s*= (\d+)", out) for name in ("n_drafted", "n_accept"))
    assert drafted is not None, out[-2000:]
    assert accepted is not None, out[-2000:]
    return int(drafted[1]), int(accepted[1])


def _ids(serve: Serve, model: Path, text: str) -> Sequence[int]:
    with serve(model, []) as server, Client(server.url) as client:
        return client.tokenize(text, parse_special=True, add_special=True)


@pytest.mark.parametrize("with_table", [False, True], ids=["no table", "table"])
@pytest.mark.parametrize(("n_ctx", "n_draft"), [(256, 3), (512, 8), (2048, 8)])
def test_counts_are_those_of_lookup_stats(  # noqa: PLR0917 - pytest names what it gives
    n_ctx: int,
    n_draft: int,
    with_table: bool,
    run: Run,
    serve: Serve,
    text: str,
    text_model: Path,
    tmp_path: Path,
) -> None:
    """On one text, with and without the table of another, drafted and accepted are exactly the tool's."""
    file, other, table = tmp_path / "text.txt", tmp_path / "other.txt", tmp_path / "table.lcs"
    half = len(text) // 2
    file.write_text(text[:half], encoding="utf-8", newline="")
    other.write_text(text[half:], encoding="utf-8", newline="")
    flags: list[object] = []
    if with_table:
        run(CREATE, "-m", text_model, "-f", other, "--no-escape", "-lcs", table, "-t", 1, "-c", 512)
        flags = ["-lcs", table]
    said = _said(run, "-m", text_model, "-f", file, "-c", n_ctx, "--spec-draft-n-max", n_draft, *flags)
    static = load_counts(table) if with_table else None
    found = lookup_stats(_ids(serve, text_model, text[:half]), n_ctx=n_ctx, n_draft=n_draft, static=static)
    assert (found.drafted, found.accepted) == said
    assert found.accepted > 100


def test_a_long_text_differs_by_what_is_read_before_its_chunks(
    run: Run, serve: Serve, text: str, text_model: Path, tmp_path: Path
) -> None:
    """Before a chunk the tool reads memory that is not its text; between what may stand there lie its counts.

    With 33 there, what glibc keeps before a small block, it is nearly always right; each chunk lies between
    that and nothing at all.
    """
    words = text.split(" ")
    rng = np.random.default_rng(1)
    long = " ".join(" ".join(words[at : at + 400]) for at in rng.integers(0, len(words) - 400, 400))
    file = tmp_path / "long.txt"
    file.write_text(long, encoding="utf-8", newline="")
    drafted, accepted = _said(run, "-m", text_model, "-f", file, "-c", 256, "--spec-draft-n-max", 8)
    ids = _ids(serve, text_model, long)
    assert len(ids) > 200_000
    known, nothing = (lookup_stats(ids, n_ctx=256, n_draft=8, outside=each) for each in (OUTSIDE, NONE))
    assert known.drafted != nothing.drafted
    for which, said in ((0, drafted), (1, accepted)):
        both = np.stack([known.by_chunk[:, which], nothing.by_chunk[:, which]])
        assert both.min(axis=0).sum() <= said <= both.max(axis=0).sum()
    assert abs(drafted - known.drafted) <= abs(drafted - nothing.drafted)
