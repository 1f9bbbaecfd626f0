"""Which types remember earlier requests: what is told of them is what a real server does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.matrix.spec import SPEC_TYPES, STATEFUL_TYPES
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

Starter = Callable[..., EngineProcess]
Ids = tuple[int, ...]

# Flags with which each type drafts on prompts of a few words.
FLAGS = {
    "ngram-simple": ["--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "4"],
    "ngram-map-k": ["--spec-ngram-map-k-size-n", "3", "--spec-ngram-map-k-size-m", "4"],
    "ngram-map-k4v": [
        *("--spec-ngram-map-k4v-size-n", "3", "--spec-ngram-map-k4v-size-m", "4"),
        *("--spec-ngram-map-k4v-min-hits", "1"),
    ],
    "ngram-mod": [
        *("--spec-ngram-mod-n-match", "4", "--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", "8"),
    ],
    "ngram-cache": [],
    "draft-mtp": ["--spec-draft-n-max", "3"],
    "draft-simple": ["--spec-draft-n-max", "3"],
}
# They draft with a head that was trained for one model; none is small enough to be tried here.
UNTRIED = {"draft-eagle3", "draft-dflash", "draft-dspark"}


def ask(server: EngineProcess, ids: Ids, n_predict: int = 48) -> tuple[Ids, tuple[int, int]]:
    """Return the answer, and what was drafted and accepted."""
    with Client(server.url) as client:
        request = CompletionRequest(prompt=ids, n_predict=n_predict, temperature=0.0, seed=1)
        result = client.completion(request)
    return result.tokens, (result.timings.draft_n or 0, result.timings.draft_n_accepted or 0)


@pytest.fixture(scope="module")
def prompts(embedded: EngineProcess) -> dict[str, Ids]:
    """Prompts that hold what the model is about to say, so that all ngram types have something to draft."""
    said: dict[str, Ids] = {}
    for name, seed, times in (("long", (30, 31), 6), ("middle", (40, 41), 3), ("short", (50, 51), 2)):
        answer, _drafts = ask(embedded, seed, 24)
        said[name] = (seed + answer) * times + seed
    return said


def test_every_type_is_tried() -> None:
    """A type that is added has to be tried here, or to be named among those that cannot be."""
    assert set(FLAGS) | UNTRIED == set(SPEC_TYPES)
    assert set(FLAGS) >= STATEFUL_TYPES


@pytest.mark.parametrize("spec", FLAGS)
def test_a_type_that_remembers_is_known_to(
    start_embedded: Starter, prompts: dict[str, Ids], session_cache: Path, spec: str
) -> None:
    """A prompt after another one drafts what it drafts on a fresh server, or the type is a stateful one.

    Each stateful type is shown to be one by some pair of prompts; each other drafts on some prompt at all.
    """
    flags = list(FLAGS[spec])
    if spec == "draft-simple":
        flags += ["-md", str(generate(HandBuiltSpec(seed=2), session_cache / "models"))]
    fresh: dict[str, tuple[int, int]] = {}
    for name, ids in prompts.items():
        server = start_embedded(*flags, spec=spec)
        fresh[name] = ask(server, ids)[1]
        server.stop()
    changed = []
    for first, second in (("long", "middle"), ("short", "long"), ("long", "long"), ("middle", "short")):
        server = start_embedded(*flags, spec=spec)
        ask(server, prompts[first])
        after = ask(server, prompts[second])[1]
        server.stop()
        if after != fresh[second]:
            changed.append(f"{second} after {first}: {after}, fresh: {fresh[second]}")
    assert any(drafted for drafted, _accepted in fresh.values())
    assert bool(changed) == (spec in STATEFUL_TYPES), changed
