"""One request, and every count of it from its own source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from pytest_ngram.engine.client import CompletionRequest, CompletionResult
from pytest_ngram.engine.log_reader import RequestLog
from pytest_ngram.engine.prometheus import added
from pytest_ngram.engine.watchdog import guarded
from pytest_ngram.errors import EngineError
from pytest_ngram.judge.accounting import N_DECODE
from pytest_ngram.judge.types import Answer, Margin, Trace, TypeCounts
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.trace import Said

T = TypeVar("T")
SEED = 1  # greedy: it decides nothing


class Asker:
    """Sends greedy requests to one server, one after the other.

    Args:
        server: fresh, so that its cumulative lines begin at 0.
        n_predict: tokens to generate.
        hang_after_s: no new token for this long is a hang.
    """

    def __init__(self, server: Server, *, n_predict: int, hang_after_s: float) -> None:
        self.server = server
        self._n_predict = n_predict
        self._hang_after_s = hang_after_s

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[int, ...]:
        """Return the ids that the server's own template and tokenizer make of a chat."""
        with self.server.failing_fast():
            text = self.server.client.apply_template(messages, tools or None)
            return self.server.client.tokenize(text, parse_special=True, add_special=True)

    def ask(self, prompt: str, ids: tuple[int, ...], *, cache: bool = False, **extra: Any) -> Answer:
        """Send one request and return its answer with all counts.

        Raises:
            EngineError: the request was refused, or the server died or made no progress.
        """
        before = self._metrics()
        result = self.complete(ids, cache=cache, **extra)
        after = self._metrics()
        said = self.server.logs.take()
        if said is not None and said.unread is not None:
            raise said.unread
        return msgspec.structs.replace(
            answer_of(prompt, ids, result),
            metrics=added(before or {}, after) if after is not None else None,
            trace=_trace(said.request) if said is not None and said.request is not None else None,
            by_type=_by_type(said) if said is not None else None,
            prompt_decodes=self.server.prompt_decodes(result.timings.prompt_n),
        )

    def together(
        self, prompts: Sequence[str], ids: Sequence[tuple[int, ...]]
    ) -> tuple[tuple[Answer, ...], float | None]:
        """Return the answers to prompts that the server is given in one go, and its decodes for all of them.

        Counters and log lines are of all of them, so only ids, slots and timings of an answer mean something.
        """
        before, client = self._metrics(), self.server.client
        request = self._request((), cache=False)
        results = self._guarded(lambda: client.completions(request, ids))
        after = self._metrics()
        self.server.logs.take()
        answers = tuple(
            msgspec.structs.replace(
                answer_of(prompt, each, result),
                prompt_decodes=self.server.prompt_decodes(result.timings.prompt_n),
            )
            for prompt, each, result in zip(prompts, ids, results, strict=True)
        )
        decodes = added(before or {}, after).get(N_DECODE) if after is not None else None
        return answers, decodes

    def margins(self, ids: tuple[int, ...], n_predict: int) -> tuple[tuple[int, ...], tuple[Margin, ...]]:
        """Return the generated ids, and of each its lead over the runner-up.

        Only without speculation: under it, llama.cpp states a probability of 1 (issue 27972).
        """
        result = self.complete(ids, n_probs=2, n_predict=n_predict)
        self.server.logs.take()
        return result.tokens, tuple(_margin(entry) for entry in result.completion_probabilities)

    def complete(self, ids: tuple[int, ...], *, cache: bool = False, **extra: Any) -> CompletionResult:
        """Send one request under the watchdog. Raises `EngineError`."""
        client, request = self.server.client, self._request(ids, cache=cache, **extra)
        return self._guarded(lambda: client.completion(request))

    def _request(self, ids: tuple[int, ...], *, cache: bool, **extra: Any) -> CompletionRequest:
        return CompletionRequest(
            prompt=ids,
            n_predict=extra.pop("n_predict", self._n_predict),
            temperature=0.0,
            seed=SEED,
            cache_prompt=cache,
            extra=extra,
        )

    def _guarded(self, request: Callable[[], T]) -> T:
        with self.server.failing_fast():
            return guarded(
                self.server.engine, request, no_progress_s=self._hang_after_s, cut=self.server.client.cut
            )

    def _metrics(self) -> dict[str, float] | None:
        try:
            return self.server.client.metrics()
        except EngineError as error:
            if error.outcome == "refused":  # it has none: the accounting gate says so
                return None
            raise


def answer_of(prompt: str, ids: tuple[int, ...], result: CompletionResult) -> Answer:
    """Return what an answer tells by itself; metrics, log and decodes of the prompt are not known."""
    timings = result.timings
    return Answer(
        prompt=prompt,
        prompt_ids=ids,
        tokens=result.tokens,
        text=result.content,
        stop=result.stop_type,
        prompt_n=timings.prompt_n,
        cache_n=timings.cache_n,
        predicted_n=timings.predicted_n,
        draft_n=timings.draft_n,
        draft_n_accepted=timings.draft_n_accepted,
        metrics=None,
        trace=None,
        by_type=None,
        prompt_decodes=0,
        id_slot=result.id_slot,
    )


def _by_type(said: Said) -> dict[str, TypeCounts] | None:
    if said.by_type is None:
        return None
    return {
        name: TypeCounts(drafted=each.drafted, accepted=each.accepted)
        for name, each in said.by_type.items()
        if each.accepted is not None
    }


def _trace(log: RequestLog) -> Trace:
    widths = [step.drafted + 1 for step in log.steps]
    return Trace(
        verify=log.verify_steps,
        replays=log.replays,
        drafted=log.drafted,
        accepted=log.accepted,
        per_position=tuple(log.accepted_per_pos),
        widths=(min(widths), max(widths)) if widths else None,
        ends_whole=log.steps[-1].accepted == log.steps[-1].drafted if log.steps else None,
    )


def _margin(entry: Mapping[str, Any]) -> Margin:
    """Of the two likeliest tokens. The chosen one leads; were another likelier, the lead is below 0."""
    try:
        chosen = entry["id"]
        runner_up = next(top for top in entry["top_logprobs"] if top["id"] != chosen)
        return Margin(token=chosen, runner_up=runner_up["id"], lead=entry["logprob"] - runner_up["logprob"])
    except (KeyError, TypeError, StopIteration) as error:
        raise EngineError(
            "the answer does not tell the two likeliest tokens of each place",
            outcome="refused",
            checked=[f"an entry of completion_probabilities: {str(entry)[:200]}"],
            fix="compare its form with `_margin` in pytest_ngram/evidence/ask.py",
        ) from error
