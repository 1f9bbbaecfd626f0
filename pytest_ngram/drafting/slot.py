"""One slot of a server with its drafters: requests are replayed on it one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_ngram.drafting import stacked
from pytest_ngram.drafting.cache import PAST_BEGIN, TIES, WALK, new_cache
from pytest_ngram.drafting.compiled import Longs
from pytest_ngram.drafting.counts import Counts
from pytest_ngram.drafting.lookup import new_lookup, new_simple
from pytest_ngram.drafting.maps import PAST_END, Map, new_map
from pytest_ngram.drafting.mod import POOL_BITS, new_mod
from pytest_ngram.drafting.policy import Drafter, Policy

_WHO = {
    "ngram-simple": stacked.SIMPLE,
    "ngram-map-k": stacked.MAP_K,
    "ngram-map-k4v": stacked.MAP_K4V,
    "ngram-mod": stacked.MOD,
    "ngram-cache": stacked.CACHE,
    "prompt-lookup": stacked.LOOKUP,
}


@dataclass(frozen=True)
class Request:
    """One request whose answer is known.

    Args:
        tokens: int64 of shape (n,), the prompt and the answer.
        prompt: how many of them are the prompt.
        budget: how many tokens the answer might have had.
        ended: whether the model ended by itself.
    """

    tokens: Longs
    prompt: int
    budget: int
    ended: bool

    @property
    def generated(self) -> int:
        """How many tokens the answer has."""
        return len(self.tokens) - self.prompt


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a policy did in a request.

    Args:
        steps: int64 of shape (verify steps, 5): drafted, accepted, drafter, token of the answer that was
            sampled last (from 1), whether a replay followed (`stacked`).
        generated: tokens of the answer.
        ties: how many drafted tokens were one of several equally good ones.
        undefined: how often llama.cpp reads memory outside of the text here, where anything may stand.
    """

    steps: Longs
    generated: int
    ties: int = 0
    undefined: int = 0

    @property
    def drafted(self) -> int:
        """Tokens drafted."""
        return int(self.steps[:, stacked.DRAFTED].sum())

    @property
    def accepted(self) -> int:
        """Tokens accepted."""
        return int(self.steps[:, stacked.ACCEPTED].sum())

    @property
    def verify_steps(self) -> int:
        """Steps with a draft."""
        return len(self.steps)

    @property
    def replays(self) -> int:
        """Steps that decode accepted tokens again after a restored checkpoint."""
        return int(self.steps[:, stacked.REPLAYED].sum())

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Drafted and accepted of each verify step."""
        return [(int(row[stacked.DRAFTED]), int(row[stacked.ACCEPTED])) for row in self.steps]


class Slot:
    """Drafters and what they remember.

    Args:
        policy: which they are.
        longest: tokens of the longest request.
        total: tokens of all requests.
        restores: whether a rejection restores a checkpoint on this model (hybrid models without MTP).
        static, dynamic: tables of `ngram-cache`; the slot changes neither.
        luck: who gets a tie (`cache.WALK`, `BEST`, `WORST`).
    """

    def __init__(
        self,
        policy: Policy,
        *,
        longest: int,
        total: int,
        restores: bool = False,
        static: Counts | None = None,
        dynamic: Counts | None = None,
        luck: int = WALK,
    ) -> None:
        self.policy = policy
        self._restores = int(restores)
        self.stack = _stack(policy, longest + 1, total + 1, static, dynamic, luck)
        self._out = np.zeros(max(policy.widest, 1), np.int64)

    def replay(self, request: Request) -> Replayed:
        """Replay a request; what its drafters learn from it stays for the next."""
        steps = np.zeros((max(request.generated, 1), stacked.COLUMNS), np.int64)
        before = self._counted()
        n_steps = stacked.replay(
            self.stack,
            request.tokens,
            request.prompt,
            request.budget,
            int(request.ended),
            self._restores,
            self._out,
            steps,
        )
        ties, undefined = (now - then for now, then in zip(self._counted(), before, strict=True))
        return Replayed(steps[:n_steps].copy(), request.generated, ties, undefined)

    def begin(self, prompt: Sequence[int]) -> None:
        """Begin a request by hand."""
        stacked.begin(self.stack, np.asarray(prompt, np.int64), len(prompt))

    def draft(self, tokens: Sequence[int]) -> list[int]:
        """Return what the first drafter that has something drafts after these tokens."""
        text = np.asarray(tokens, np.int64)
        for who in self.stack.order:
            n = stacked.draft_of(self.stack, int(who), text, len(text) - 1, len(text), self._out)
            if n > 0:
                return [int(token) for token in self._out[:n]]
        return []

    def _counted(self) -> tuple[int, int]:
        maps = (self.stack.map_k, self.stack.map_k4v)
        undefined = sum(int(each.now[PAST_END]) for each in maps) + int(self.stack.cache.now[PAST_BEGIN])
        return int(self.stack.cache.now[TIES]), undefined


def _stack(
    policy: Policy, longest: int, total: int, static: Counts | None, dynamic: Counts | None, luck: int
) -> stacked.Stack:
    """Return the state of all drafters; one that takes no part gets no room."""
    of = {each.name: each for each in policy.drafters}
    simple, lookup = of.get("ngram-simple"), of.get("prompt-lookup")
    mod, cache = of.get("ngram-mod"), of.get("ngram-cache")
    return stacked.Stack(
        order=np.array([_WHO[each.name] for each in policy.drafters], np.int64),
        simple=new_simple(*_map_numbers(simple), _is_mended(simple), longest if simple else 0),
        map_k=_map(of.get("ngram-map-k"), True, total),
        map_k4v=_map(of.get("ngram-map-k4v"), False, total),
        mod=new_mod(
            *((mod.number("n_match"), mod.number("n_min"), mod.number("n_max")) if mod else (1, 0, 0)),
            _is_mended(mod),
            bits=POOL_BITS if mod else 1,
        ),
        cache=new_cache(
            cache.number("n_draft") if cache else 0,
            _is_mended(cache),
            total if cache else 0,
            luck=luck,
            static=static,
            dynamic=dynamic,
        ),
        lookup=new_lookup(
            *((lookup.number("n"), lookup.number("min"), lookup.number("max")) if lookup else (1, 1, 1)),
            longest if lookup else 0,
        ),
    )


def _map(drafter: Drafter | None, key_only: bool, total: int) -> Map:
    return new_map(*_map_numbers(drafter), key_only, _is_mended(drafter), total if drafter else 0)


def _map_numbers(drafter: Drafter | None) -> tuple[int, int, int]:
    if drafter is None:
        return 1, 1, 1
    return drafter.number("size_n"), drafter.number("size_m"), drafter.number("min_hits")


def _is_mended(drafter: Drafter | None) -> bool:
    return drafter is not None and drafter.variant == "documented"
