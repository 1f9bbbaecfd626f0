"""The drafters against a second implementation that is slow, literal, and has no code in common with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.drafting.cache import TIES
from pytest_ngram.drafting.counts import Counts
from pytest_ngram.drafting.hash_order import walk_order
from pytest_ngram.drafting.policy import Drafter, drafter, stack
from pytest_ngram.drafting.slot import Request, Slot

NAMES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "prompt-lookup")
LONGEST = 400


def build(name: str, n: int, m: int, hits: int, tables: list[literal.Table]) -> tuple[Drafter, literal.Twin]:
    if name == "ngram-simple":
        return drafter(name, {"size_n": n, "size_m": m}), literal.SimpleTwin(n, m)
    if name.startswith("ngram-map"):
        numbers = {"size_n": n, "size_m": m, "min_hits": hits}
        return drafter(name, numbers), literal.MapTwin(n, m, hits, name == "ngram-map-k")
    if name == "ngram-mod":
        return drafter(name, {"n_match": n, "n_min": hits - 1, "n_max": m}), literal.ModTwin(n, hits - 1, m)
    if name == "ngram-cache":
        return drafter(name), literal.CacheTwin(*tables)
    return drafter(name, {"n": m, "min": n, "max": n + hits}), literal.LookupTwin(m, n, n + hits)


@st.composite
def texts(draw: st.DrawFn, vocabulary: int) -> list[int]:
    """Tokens, and copies of what came before: without repetition nothing is ever drafted."""
    text = [draw(st.integers(0, vocabulary - 1))]
    for _ in range(draw(st.integers(1, 20))):
        if draw(st.booleans()):
            begin = draw(st.integers(0, len(text) - 1))
            text += (text[begin:] * 9)[: draw(st.integers(1, 25))]
        else:
            text += draw(st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=4))
    return text[: LONGEST // 2]


# large enough that products pass int32
COUNTS = st.sampled_from([1, 1, 2, 3, 5, 60, 5_000_000, 21_474_836])
PARTS = st.dictionaries(st.sampled_from([*range(6), 13, 14, 26]), COUNTS, min_size=1, max_size=5)
KEYS = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
TABLES = st.dictionaries(KEYS, PARTS, max_size=12)


@st.composite
def servers(draw: st.DrawFn) -> dict[str, Any]:
    """A stack, its tables, and several requests on one server, some a part of one another."""
    vocabulary = draw(st.sampled_from([2, 3, 6, 20]))
    base = draw(texts(vocabulary))
    requests = []
    for _ in range(draw(st.integers(1, 4))):
        prompt = draw(st.one_of(texts(vocabulary), st.just(base), st.just(base[: len(base) // 2 + 1])))
        answer = draw(texts(vocabulary))
        ended = draw(st.booleans())
        budget = len(answer) + (draw(st.integers(0, 20)) if ended else 0)
        requests.append((prompt, answer, budget, ended))
    return {
        "names": draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)),
        "numbers": draw(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 3))),
        "tables": [draw(TABLES), draw(TABLES)],
        "requests": requests,
        "restores": draw(st.booleans()),
    }


@settings(max_examples=200, deadline=None)
@given(server=servers())
def test_every_step_is_that_of_the_literal_drafters(
    server: dict[str, Any], counts_of: Callable[[literal.Table], Counts]
) -> None:
    """Drafted, accepted and drafter of each verify step, and the ties, are equal over several requests."""
    built = {name: build(name, *server["numbers"], server["tables"]) for name in server["names"]}
    policy = stack([pair[0] for pair in built.values()])
    twins = [built[each.name][1] for each in policy.drafters]
    static, dynamic = map(counts_of, server["tables"])
    slot = Slot(
        policy,
        longest=LONGEST,
        total=4 * LONGEST,
        restores=server["restores"],
        static=static,
        dynamic=dynamic,
    )
    order = [int(who) for who in slot.stack.order]
    for prompt, answer, budget, ended in server["requests"]:
        tokens = [*prompt, *answer]
        expected = literal.serve(twins, tokens, len(prompt), budget, ended=ended, restores=server["restores"])
        replayed = slot.replay(Request(np.array(tokens, np.int64), len(prompt), budget, ended))
        assert [(int(n), int(k), order.index(int(who))) for n, k, who, *_ in replayed.steps] == expected
    for twin in twins:
        if isinstance(twin, literal.CacheTwin):
            assert slot.stack.cache.now[TIES] == twin.ties


@settings(max_examples=200, deadline=None)
@given(keys=st.lists(st.integers(0, 300), unique=True, max_size=80))
def test_the_walk_is_that_of_the_literal_one(keys: list[int]) -> None:
    """The order of a hash map's walk is found with buckets as well as with one plain list."""
    out = np.zeros(len(keys), np.int64)
    walk_order(np.array(keys, np.int64), len(keys), out)
    assert [keys[place] for place in out] == literal.walk(keys)


def test_the_walk_is_that_of_gcc() -> None:
    """As a program printed it that was compiled with GCC 12's libstdc++."""
    put = [83, 86, 77, 15, 93]
    out = np.zeros(5, np.int64)
    walk_order(np.array(put, np.int64), 5, out)
    assert [put[place] for place in out] == [93, 15, 77, 86, 83]


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "error", *sys.argv[1:]]))
"""


def test_without_numba_all_is_the_same(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Where numba cannot be imported the same tests pass, as plain Python and without a warning."""
    if "numba" in sys.modules and sys.modules["numba"] is None:
        return
    here = Path(__file__)
    chosen = [str(here.with_name("test_vectors.py")), f"{here}::test_the_walk_is_that_of_the_literal_one"]
    env = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA, *chosen, "--rootdir", str(request.config.rootpath)],
        cwd=request.config.rootpath,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
