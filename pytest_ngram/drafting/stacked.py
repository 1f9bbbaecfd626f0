"""A stack on one server: its state, and a request replayed through it."""

from __future__ import annotations

from typing import NamedTuple

from pytest_ngram.drafting.cache import Cache, begin_cache, draft_cache
from pytest_ngram.drafting.compiled import Longs, kernel
from pytest_ngram.drafting.lookup import Lookup, Simple, clear_chains, draft_lookup, draft_simple
from pytest_ngram.drafting.maps import Map, accept_map, begin_map, draft_map
from pytest_ngram.drafting.mod import Mod, accept_mod, begin_mod, draft_mod

SIMPLE, MAP_K, MAP_K4V, MOD, CACHE, LOOKUP = range(6)
# columns of a verify step
DRAFTED, ACCEPTED, WHO, GENERATED, REPLAYED = range(5)
COLUMNS = 5


class Stack(NamedTuple):
    """The drafters of one slot. `order`: int64, which of them take part, in the order they are asked."""

    order: Longs
    simple: Simple
    map_k: Map
    map_k4v: Map
    mod: Mod
    cache: Cache
    lookup: Lookup


@kernel
def begin(stack: Stack, tokens: Longs, length: int) -> None:
    """Begin a request whose prompt is `tokens[:length]`."""
    for who in stack.order:
        if who == SIMPLE:
            clear_chains(stack.simple.chains)
        elif who == MAP_K:
            begin_map(stack.map_k, length)
        elif who == MAP_K4V:
            begin_map(stack.map_k4v, length)
        elif who == MOD:
            begin_mod(stack.mod, tokens, length)
        elif who == CACHE:
            begin_cache(stack.cache)
        else:
            clear_chains(stack.lookup.chains)


@kernel
def draft_of(stack: Stack, who: int, tokens: Longs, length: int, truth: int, out: Longs) -> int:
    """Ask one drafter; arguments as `cache.draft_cache`."""
    if who == SIMPLE:
        return draft_simple(stack.simple, tokens, length, out)
    if who == MAP_K:
        return draft_map(stack.map_k, tokens, length, out)
    if who == MAP_K4V:
        return draft_map(stack.map_k4v, tokens, length, out)
    if who == MOD:
        return draft_mod(stack.mod, tokens, length, out)
    if who == CACHE:
        return draft_cache(stack.cache, tokens, length, truth, out)
    return draft_lookup(stack.lookup, tokens, length, out)


@kernel
def accept(stack: Stack, who: int, accepted: int, drafted: int) -> None:
    """Tell the drafter of the last draft how much of it was accepted; the others do not care."""
    if who == MAP_K:
        accept_map(stack.map_k, accepted)
    elif who == MAP_K4V:
        accept_map(stack.map_k4v, accepted)
    elif who == MOD:
        accept_mod(stack.mod, accepted, drafted)


@kernel
def replay(
    stack: Stack, tokens: Longs, prompt: int, budget: int, ended: int, restores: int, out: Longs, steps: Longs
) -> int:
    """Replay a request whose answer is known.

    Args:
        stack: the drafters with their state.
        tokens: the prompt and the whole answer.
        prompt: how many of them are the prompt.
        budget: how many tokens the request might have, at least those of the answer.
        ended: 1 where the model ended by itself, so that the last token is its end of generation.
        restores: 1 where a rejection restores a checkpoint and the accepted tokens are decoded again.
        out: room for a draft.
        steps: int64 of shape (answer, 5), one row a verify step: drafted, accepted, who drafted, which token
            of the answer was sampled last (from 1), whether a replay followed.

    Returns:
        How many verify steps there were.

    As in the server's loop, the first token comes from the prompt's decode; a draft is cut to what the
    request may still have after this step's own token; past an end of generation nothing is accepted, but a
    draft whose last token it is was accepted whole. A replayed draft has one more token, the target's own,
    which `accept` counts.
    """
    end = len(tokens)
    begin(stack, tokens, prompt)
    at = prompt + 1
    n_steps = 0
    while at < end:
        limit = budget - (at - prompt) - 1
        drafted, who = 0, -1
        if limit > 0:
            for each in stack.order:
                drafted = draft_of(stack, each, tokens, at - 1, end, out)
                if drafted > 0:
                    who = each
                    break
        if drafted == 0:
            at += 1
            continue
        drafted = min(drafted, limit)
        accepted = 0
        while accepted < drafted and at + accepted < end and out[accepted] == tokens[at + accepted]:
            if ended == 1 and at + accepted == end - 1 and accepted + 1 < drafted:
                break
            accepted += 1
        again = 1 if restores == 1 and accepted < drafted else 0
        accept(stack, who, accepted + again, drafted)
        row = steps[n_steps]
        row[DRAFTED], row[ACCEPTED], row[WHO] = drafted, accepted, who
        row[GENERATED], row[REPLAYED] = at - prompt, again
        n_steps += 1
        at += accepted + 1 + again
    return n_steps
