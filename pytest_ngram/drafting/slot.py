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
from pytest_ngram.drafting.maps import PAST_END, new_map
from pytest_ngram.drafting.mod import RESETS, new_mod
from pytest_ngram.drafting.policy import Drafter, Policy

_WHO = {
    "ngram-simple": stacked.SIMPLE,
    "ngram-map-k": stacked.MAP_K,
    "ngram-map-k4v": stacked.MAP_K4V,
    "ngram-mod": stacked.MOD,
    "ngram-cache": stacked.CACHE,
    "prompt-lookup": stacked.LOOKUP,
}
NAMES = {who: name for name, who in _WHO.items()}


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
    def target_steps(self) -> int:
        """All decodes of the target after the prompt: plain, verify and replay.

        An answer that ends inside of a draft, or with its last token, has no token of the target's own there.
        """
        return max(self.generated - 1 - self.accepted, 0)

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
        by_name = {drafter.name: drafter for drafter in policy.drafters}
        of = _Numbers(by_name, longest + 1, total + 1)
        self.stack = stacked.Stack(
            order=np.array([_WHO[drafter.name] for drafter in policy.drafters], np.int64),
            simple=new_simple(
                *of("ngram-simple", "size_n", "size_m", "min_hits"), of.mended, of.longest
            ),
            map_k=new_map(*of("ngram-map-k", "size_n", "size_m", "min_hits"), True, of.mended, of.total),
            map_k4v=new_map(*of("ngram-map-k4v", "size_n", "size_m", "min_hits"), False, of.mended, of.total),
            mod=new_mod(*of("ngram-mod", "n_match", "n_min", "n_max"), of.mended, **of.bits),
            cache=new_cache(
                *of("ngram-cache", "n_draft"), of.mended, of.total, luck=luck, static=static, dynamic=dynamic
            ),
            lookup=new_lookup(*of("prompt-lookup", "n", "min", "max"), of.longest),
        )
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
        """Return what the first drafter that has something drafts after these tokens, the last one included."""
        text = np.asarray(tokens, np.int64)
        for who in self.stack.order:
            n = stacked.draft_of(self.stack, int(who), text, len(text) - 1, len(text), self._out)
            if n > 0:
                return [int(token) for token in self._out[:n]]
        return []

    @property
    def resets(self) -> int:
        """How often `ngram-mod` emptied its pool."""
        return int(self.stack.mod.now[RESETS])

    def _counted(self) -> tuple[int, int]:
        maps = (self.stack.map_k, self.stack.map_k4v)
        undefined = sum(int(each.now[PAST_END]) for each in maps) + int(self.stack.cache.now[PAST_BEGIN])
        return int(self.stack.cache.now[TIES]), undefined


class _Numbers:
    """The numbers of drafters; for one that takes no part 1 each, and no room for tokens."""

    def __init__(self, drafters: dict[str, Drafter], longest: int, total: int) -> None:
        self._drafters = drafters
        self._longest, self._total = longest, total
        self._now: Drafter | None = None

    def __call__(self, drafter: str, *names: str) -> list[int]:
        self._now = self._drafters.get(drafter)
        return [1 if self._now is None else self._now.number(name) for name in names]

    @property
    def mended(self) -> bool:
        return self._now is not None and self._now.variant == "documented"

    @property
    def longest(self) -> int:
        return 0 if self._now is None else self._longest

    @property
    def total(self) -> int:
        return 0 if self._now is None else self._total

    @property
    def bits(self) -> dict[str, int]:
        return {"bits": 1} if self._now is None else {}
