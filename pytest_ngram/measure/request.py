"""One request and what it cost: the round of a record.

Counts come from `/metrics`, read before and after the request, while nothing else uses the server.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

from pytest_ngram.engine.build import OF_REQUESTS
from pytest_ngram.engine.capabilities import observed
from pytest_ngram.engine.client import CompletionRequest, CompletionResult
from pytest_ngram.engine.watchdog import Progress, guarded
from pytest_ngram.errors import EngineError
from pytest_ngram.measure.accounting import account
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.trace import Said
from pytest_ngram.record import Round, pack_tokens


def measure(
    server: Server,
    request: CompletionRequest,
    *,
    hang_after_s: float,
    on_progress: Callable[[Progress], None] | None = None,
) -> Round:
    """Send one request and return its round.

    Args:
        server: what answers, watched for progress.
        request: what to ask.
        hang_after_s: no new token for this long is a hang.
        on_progress: called from the watching thread with each of the watchdog's polls.

    Raises:
        EngineError: the request was refused, the server died, made no progress, or answered another question.
    """
    before = server.metrics()
    server.look_for_others(before)
    begin_s = time.monotonic()
    result = guarded(
        server.engine,
        lambda: server.client.completion(request),
        no_progress_s=hang_after_s,
        on_progress=on_progress,
        cut=server.client.cut,
    )
    wall_s = time.monotonic() - begin_s
    after = server.metrics()
    server.counted = after
    delta = _delta(before, after)
    said = server.logs.take()
    _look(server, result, delta, said)
    _check_answer(request, result)
    timings = result.timings
    counts = account(
        timings,
        delta,
        said.request if said is not None else None,
        said.by_type if said is not None else None,
        speculative=server.speculative,
        prompt_decodes=server.prompt_decodes(timings.prompt_n),
    )
    return Round(
        status="ok",
        seed=request.seed,
        tokens=pack_tokens(result.tokens),
        text_sha256=hashlib.sha256(result.content.encode()).hexdigest(),
        prompt_n=timings.prompt_n,
        prompt_ms=timings.prompt_ms,
        predicted_n=timings.predicted_n,
        predicted_ms=timings.predicted_ms,
        wall_s=wall_s,
        drafted=counts.drafted,
        accepted=counts.accepted,
        steps=counts.steps,
        verify_steps=counts.verify_steps,
        replays=counts.replays,
        accepted_per_pos=counts.per_position,
        n_decode=counts.n_decode,
        stop=result.stop_type,
        by_type=counts.by_type,
    )


def _look(server: Server, result: CompletionResult, delta: Mapping[str, float], said: Said | None) -> None:
    """Learn from an answer what only a draft can show, until all of it was seen."""
    drafted = result.timings.draft_n or any(
        count for name, count in delta.items() if "num_draft_tokens" in name
    )
    if drafted and not server.capabilities.keys() >= set(OF_REQUESTS):
        server.saw(
            observed(
                result,
                delta if server.capabilities.get("metrics", True) else None,
                slots=server.capabilities.get("slots", False),
                lines=said.lines if said is not None else None,
            )
        )


def _delta(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """A label that was not there before counts from 0; a metric that the build lacks stays away."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _check_answer(request: CompletionRequest, result: CompletionResult) -> None:
    """Refuse an answer whose times are not of the whole prompt and of the tokens that came."""
    timings = result.timings
    wrong = []
    if timings.cache_n or timings.prompt_n != len(request.prompt):
        of = f"of {len(request.prompt)} prompt tokens"
        wrong.append(f"{of} {timings.prompt_n} were processed, {timings.cache_n} were taken from a cache")
    if timings.predicted_n != len(result.tokens):
        wrong.append(f"{timings.predicted_n} tokens timed, {len(result.tokens)} delivered")
    if result.truncated:
        wrong.append("the context was full, and the prompt or the answer was cut")
    if wrong:
        raise EngineError(
            "the server did not do what was asked, so its times mean something else",
            outcome="refused",
            checked=wrong,
            fix="give a larger -c; leave the prompt cache off (--no-cache-prompt, --cache-ram 0)",
        )
