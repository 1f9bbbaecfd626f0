"""What the leakage check costs before a bench, as figures of one run.

Prompts of ~300 tokens against a synthetic Zipf corpus of 5 million tokens, the size of 18 MB of chats:

* 32 prompts that are not in it, and 32 of which a quarter is copied out of it, <= 3 s each
* twice the tokens take <= 2.5 times as long
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from goals import verdict

from pytest_ngram.corpus.leakage import Found, Ids, find

VOCABULARY = 49_152
TOKENS = 5_000_000
MESSAGE_TOKENS = 250
PROMPTS, PROMPT_TOKENS = 32, 300
COPIED = 8
GOAL_S = 3.0
GROWTH_GOAL = 2.5
REPEATS = 5


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    rng = np.random.default_rng(1)
    corpus = messages(rng, TOKENS)
    double = [*corpus, *messages(rng, TOKENS)]
    clean = [[text] for text in messages(rng, PROMPTS * PROMPT_TOKENS, PROMPT_TOKENS)]
    leaky = [[text] if i >= COPIED else [corpus[i * 1000]] for i, (text,) in enumerate(clean)]
    times = {"clean": list[float](), "leaky": list[float](), "double": list[float]()}
    for _ in range(REPEATS):  # interleaved, so that a slow moment of the host is in all of them
        for name, prompts, against in (
            ("clean", clean, corpus),
            ("leaky", leaky, corpus),
            ("double", clean, double),
        ):
            taken_s, found = timed(partial(find, prompts, against))
            times[name].append(taken_s)
            check(name, found)
    least_s = {name: min(taken) for name, taken in times.items()}  # the least disturbed by others
    print(f"{PROMPTS} prompts of {PROMPT_TOKENS} tokens, {len(corpus)} messages, {TOKENS} tokens")
    met = [verdict(f"leakage, {name} prompts", least_s[name], GOAL_S, "s") for name in ("clean", "leaky")]
    growth = least_s["double"] / least_s["clean"]
    met.append(verdict("leakage, twice the tokens", growth, GROWTH_GOAL, "times as long"))
    return 0 if all(met) else 1


def messages(rng: np.random.Generator, tokens: int, each: int = MESSAGE_TOKENS) -> list[Ids]:
    """Return messages of `each` tokens whose ids follow Zipf's law, as those of a text do."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    edges = np.cumsum(weights / weights.sum())
    drawn = np.searchsorted(edges, rng.random(tokens)).clip(max=VOCABULARY - 1).astype(np.int32)
    return np.split(drawn, range(each, tokens, each))


def timed(search: Callable[[], list[Found]]) -> tuple[float, list[Found]]:
    """Return the seconds of one search, and what it found."""
    begin_s = time.perf_counter()
    found = search()
    return time.perf_counter() - begin_s, found


def check(name: str, found: list[Found]) -> None:
    """A search that finds something else is not the one whose time is asked for."""
    exact = sum(bool(each.exact) for each in found)
    if exact != (COPIED if name == "leaky" else 0):
        raise SystemExit(f"{name}: {exact} exact duplicates were found")


if __name__ == "__main__":
    sys.exit(main())
