"""Sums over requests: what each means, and that steps and tokens add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Replayed, Request, Slot
from pytest_ngram.drafting.tally import Tally, pooled, tally


def replayed(generated: int, steps: Sequence[tuple[int, int, int, int]], ties: int = 0) -> Replayed:
    """Steps of (drafted, accepted, sampled before, replayed)."""
    rows = [(drafted, accepted, 0, before, again) for drafted, accepted, before, again in steps]
    return Replayed(np.array(rows, np.int64).reshape(-1, 5), generated, ties)


def test_the_sums_of_one_request() -> None:
    """11 tokens: the prompt's, 3 of 4 drafted and the target's own, 0 of 2 and one, and 5 by themselves."""
    found = tally([replayed(11, [(4, 3, 1, 0), (2, 0, 5, 0)], ties=2)])
    assert (found.requests, found.generated, found.drafted, found.accepted) == (1, 10, 6, 3)
    assert (found.verify, found.plain, found.replays, found.steps) == (2, 5, 0, 7)
    assert found.per_position == ((2, 1), (2, 1), (1, 1), (1, 0))
    assert found.accepted_per_position == (0.5, 0.5, 1.0, 0.0)
    assert found.widths == ((1, 5), (3, 1), (5, 1))
    assert found.acceptance == 0.5
    assert found.coverage == pytest.approx(2 / 7)
    assert found.tokens_per_step == pytest.approx(10 / 7)
    assert found.ties == 2


def test_a_replay_is_a_step_that_decodes_what_was_accepted() -> None:
    """After 1 of 3 the accepted token and the one sampled are decoded again, which brings one more token."""
    found = tally([replayed(5, [(3, 1, 1, 1)])])
    assert (found.verify, found.replays, found.plain, found.steps) == (1, 1, 1, 3)
    assert found.widths == ((1, 1), (3, 1), (4, 1))
    assert found.coverage == 0.5


def test_a_last_step_brings_no_more_than_the_answer_has() -> None:
    """Where the end of generation was accepted, the step has no token of the target's own."""
    found = tally([replayed(4, [(3, 3, 1, 0)])])
    assert (found.plain, found.verify, found.accepted) == (0, 1, 3)


def test_what_has_no_step_has_no_share() -> None:
    """Nothing drafted has no acceptance, no step no coverage: None, never 0."""
    found = tally([replayed(1, [])])
    assert (found.acceptance, found.coverage, found.tokens_per_step) == (None, None, None)
    assert tally([]) == pooled([])


POLICIES = (
    "ngram-simple:size_n=2,size_m=3",
    "ngram-mod:n_match=2,n_min=1,n_max=5",
    "prompt-lookup:n=4,min=1,max=3",
)
TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=60)


@given(requests=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), restores=st.booleans())
@pytest.mark.parametrize("policy", POLICIES)
def test_steps_bring_all_tokens(
    policy: str,
    requests: list[tuple[list[int], list[int]]],
    restores: bool,
    request_of: Callable[..., Request],
) -> None:
    """Each plain step brings one token, each other one what it accepted and one more: in all, the answers."""
    slot = Slot(parse(policy), longest=120, total=480, restores=restores)
    all_of = [slot.replay(request_of(prompt, answer)) for prompt, answer in requests]
    found = tally(all_of)
    assert found.generated == found.plain + found.accepted + found.verify + found.replays
    assert sum(n for _, n in found.widths) == found.steps
    assert sum(n for n, _ in found.per_position) == found.drafted
    assert sum(n for _, n in found.per_position) == found.accepted
    assert pooled([tally([each]) for each in all_of]) == found


def test_pooling_adds_positions_of_different_lengths() -> None:
    """Two tallies with 1 and 2 positions have 2 together."""
    found = pooled([tally([replayed(3, [(1, 1, 1, 0)])]), tally([replayed(4, [(2, 1, 1, 0)])])])
    assert isinstance(found, Tally)
    assert found.per_position == ((2, 2), (1, 0))
    assert found.requests == 2
