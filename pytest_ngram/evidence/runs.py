"""The requests that gates judge, by what they show. Each run is made once per session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from pytest_ngram.evidence.ask import Asker
from pytest_ngram.evidence.servers import PLAIN, GateServers, Variant
from pytest_ngram.evidence.store import EvidenceStore
from pytest_ngram.judge import margins as judge_margins
from pytest_ngram.judge.types import Answer, Margin, Together
from pytest_ngram.matrix.spec import BASELINE

Chat = tuple[list[dict[str, str]], list[dict[str, Any]]]
CACHE = Variant("prompt-cache", ("--cache-ram", "256"))
TWO_SLOTS = Variant("two-slots", ("-np", "2"))
N_MAX_1 = Variant("n-max-1", ("--spec-draft-n-max", "1"))
N_MAX_3 = Variant("n-max-3", ("--spec-draft-n-max", "3"))
# What must not matter, and moves numbers all the same: another split of the sums over threads, and other
# kernels, as a verify batch uses them. One token a batch is the one extreme, a whole prompt the other.
CHANGES = (
    Variant("threads", ("-t", "2", "-tb", "2")),
    Variant("ubatch-1", ("-ub", "1")),
    Variant("ubatch-8", ("-ub", "8")),
)


# Two threads on two busy cores are many times slower than one, and a few dozen leads tell the bound.
_CHANGED_TOKENS = 32


class TextMargins(msgspec.Struct, frozen=True):
    """The generated ids of one prompt and the lead of each."""

    tokens: tuple[int, ...]
    margins: tuple[Margin, ...]


class Runs:
    """Runs requests and keeps what came.

    Args:
        servers: starts fresh servers.
        store: keeps answers for the session.
        chats: prompt id → messages and tools.
        prompts: model → prompt ids, in the order in which they are sent.
    """

    def __init__(
        self,
        servers: GateServers,
        store: EvidenceStore,
        chat: Callable[[str], Chat],
        prompts: Callable[[str], Sequence[str]],
    ) -> None:
        self.servers = servers
        self.store = store
        self._chat = chat
        self.prompts = prompts

    def warmed(self, model: str, config: str, variant: Variant = PLAIN, again: int = 1) -> dict[str, Answer]:
        """Return the answers of one server to all prompts, in order. `again` names a repetition."""

        def run() -> dict[str, Answer]:
            with self._asker(model, config, variant) as asker:
                return {prompt: self._ask(asker, prompt) for prompt in self.prompts(model)}

        return self.store.once(f"{model}/{config}/{variant.name}/warmed-{again}", dict[str, Answer], run)

    def fresh(self, model: str, config: str, prompt: str) -> Answer:
        """Return the answer of a server that was asked nothing before: the first of three times."""
        return self.three_times(model, config, prompt)[0]

    def three_times(self, model: str, config: str, prompt: str) -> tuple[Answer, ...]:
        """Return three answers of one server to the same prompt."""

        def run() -> tuple[Answer, ...]:
            with self._asker(model, config, PLAIN) as asker:
                return tuple(self._ask(asker, prompt) for _ in range(3))

        return self.store.once(f"{model}/{config}/{PLAIN.name}/three-times-{prompt}", tuple[Answer, ...], run)

    def cached(self, model: str, config: str) -> dict[str, Answer]:
        """Return answers that were given from the prompt cache: each prompt's second one in a row."""

        def run() -> dict[str, Answer]:
            with self._asker(model, config, CACHE) as asker:
                return {
                    prompt: [self._ask(asker, prompt, cache=True) for _ in range(2)][-1]
                    for prompt in self.prompts(model)
                }

        return self.store.once(f"{model}/{config}/{CACHE.name}/second", dict[str, Answer], run)

    def second_slot(self, model: str, config: str, first: str, second: str) -> tuple[Answer, Answer, Answer]:
        """Return `second` on slot 1 of a fresh server; of another, `first` on slot 0, `second` on 1."""

        def run() -> tuple[Answer, Answer, Answer]:
            with self._asker(model, config, TWO_SLOTS) as asker:
                alone = self._ask(asker, second, id_slot=1)
            with self._asker(model, config, TWO_SLOTS) as asker:
                other = self._ask(asker, first, id_slot=0)
                return alone, other, self._ask(asker, second, id_slot=1)

        name = f"{model}/{config}/{TWO_SLOTS.name}/after-{first}-{second}"
        return self.store.once(name, tuple[Answer, Answer, Answer], run)

    def at_once(self, model: str, config: str, first: str, second: str) -> Together:
        """Return the answers to two prompts that two slots of one fresh server worked on together.

        They go in one request: two of few milliseconds each would as a rule run one after the other.
        """

        def run() -> Together:
            prompts = (first, second)
            with self._asker(model, config, TWO_SLOTS) as asker:
                (one, other), decodes = asker.together(prompts, [self._render(asker, p) for p in prompts])
            return Together((one, other), decodes)

        return self.store.once(f"{model}/{config}/{TWO_SLOTS.name}/at-once-{first}-{second}", Together, run)

    def margins(self, model: str, variant: Variant = PLAIN) -> dict[str, TextMargins]:
        """Return the baseline's leads at every token of every prompt; under a change, of the first tokens."""
        n_predict = self.servers.matrix.gates.n_predict
        if variant != PLAIN:
            n_predict = min(n_predict, _CHANGED_TOKENS)

        def run() -> dict[str, TextMargins]:
            with self._asker(model, BASELINE, variant) as asker:
                return {
                    prompt: TextMargins(*asker.margins(self._render(asker, prompt), n_predict))
                    for prompt in self.prompts(model)
                }

        return self.store.once(f"{model}/{BASELINE}/{variant.name}/margins", dict[str, TextMargins], run)

    def bound(self, model: str) -> float:
        """Return how far a change of threads or batch moves a lead on this model, in nats."""
        base = [text.margins for text in self.margins(model).values()]
        changed = [[text.margins for text in self.margins(model, variant).values()] for variant in CHANGES]
        return judge_margins.bound(base, *changed)

    def _ask(self, asker: Asker, prompt: str, *, cache: bool = False, **extra: Any) -> Answer:
        return asker.ask(prompt, self._render(asker, prompt), cache=cache, **extra)

    def _render(self, asker: Asker, prompt: str) -> tuple[int, ...]:
        return asker.render(*self._chat(prompt))

    @contextmanager
    def _asker(self, model: str, config: str, variant: Variant) -> Iterator[Asker]:
        matrix = self.servers.matrix
        server = self.servers.start(model, config, variant)
        try:
            yield Asker(server, n_predict=matrix.gates.n_predict, hang_after_s=matrix.hang_after_s)
        finally:
            server.stop()
