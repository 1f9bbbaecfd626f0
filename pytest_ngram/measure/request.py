"""One request and what it cost: the round of a record.

Counts come from `/metrics`, read before and after the request, while nobody else uses the server: where
somebody does, the request is refused, since counts and times are of both.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

from pytest_ngram.engine.build import OF_REQUESTS
from pytest_ngram.engine.capabilities import observed
from pytest_ngram.engine.client import CompletionRequest, CompletionResult, Timings
from pytest_ngram.engine.prometheus import added
from pytest_ngram.engine.watchdog import Progress, guarded
from pytest_ngram.errors import EngineError
from pytest_ngram.measure.accounting import account
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.telemetry import telemetry
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
        EngineError: the request was refused, the server died, made no progress, answered another question,
            or answered somebody else too.
    """
    before = server.metrics()
    rest_of_ours = server.look_for_others(before)
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
    delta = added(before, after)
    said = server.logs.take()
    others = _others(result.timings, delta, after)
    if others and not rest_of_ours:
        raise server.disturbed("the server answered somebody else during this request", others)
    delta = {} if others else delta
    _look(server, result, delta, said)
    _check_answer(request, result)
    timings = result.timings
    prompt_decodes = server.prompt_decodes(timings.prompt_n)
    counts = account(
        timings,
        delta,
        said.request if said is not None else None,
        said.by_type if said is not None else None,
        speculative=server.speculative,
        prompt_decodes=prompt_decodes,
    )
    if said is not None and said.unread is not None:
        server.could_not_read(said.unread)
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
        n_predict=request.n_predict,
        telemetry=telemetry(
            timings,
            counts,
            said,
            wall_s=wall_s,
            speculative=server.speculative,
            prompt_decodes=prompt_decodes,
        ),
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


def _others(timings: Timings, delta: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Return what the server did besides this request; nothing where it does not count that."""
    found = [
        f"{delta[name]:.0f} tokens were {what}, {ours} of them for this cell"
        for name, what, ours in (
            ("llamacpp:tokens_predicted_total", "generated", timings.predicted_n),
            ("llamacpp:prompt_tokens_total", "read of prompts", timings.prompt_n),
        )
        if name in delta and delta[name] != ours
    ]
    waiting = sum(after.get(f"llamacpp:requests_{what}", 0.0) for what in ("processing", "deferred"))
    return [*found, f"when it had answered, it had {waiting:.0f} more to answer"] if waiting else found


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
