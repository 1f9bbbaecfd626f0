"""Counting, pruning, capping: against a plain Counter."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import TableError
from pytest_ngram.table import COUNT_LIMIT, INT32_MAX, Counts
from pytest_ngram.table.counts import (
    COUNT_CAP,
    cap_counts,
    count_bigrams,
    count_cap_for,
    drafting_keys,
    merge,
    prune,
)

Triple = tuple[int, int, int]

# Few different ids, so that keys and pairs repeat.
MESSAGES = st.lists(st.lists(st.integers(0, 4) | st.just(2**21 - 1), max_size=12), max_size=12)
COUNTERS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 6)), st.integers(1, 300), max_size=30
)


def as_dict(counts: Counts) -> dict[Triple, int]:
    rows = zip(
        counts.key_a.tolist(),
        counts.key_b.tolist(),
        counts.third.tolist(),
        counts.count.tolist(),
        strict=True,
    )
    return {(a, b, third): count for a, b, third, count in rows}


def from_dict(counter: dict[Triple, int]) -> Counts:
    rows = np.array([[*triple, n] for triple, n in sorted(counter.items())], np.int64).reshape(-1, 4)
    key_a, key_b, third = (rows[:, i].astype(np.int32) for i in range(3))
    return Counts(key_a, key_b, third, rows[:, 3])


def count_plainly(messages: list[list[int]]) -> dict[Triple, int]:
    return Counter(t for ids in messages for t in zip(ids, ids[1:], ids[2:], strict=False))


def by_key(counter: dict[Triple, int]) -> dict[tuple[int, int], dict[int, int]]:
    keys: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (a, b, third), n in counter.items():
        keys[a, b][third] = n
    return keys


def test_the_docstrings_example_holds() -> None:
    """Nothing is counted across messages, and a repeated pair is counted twice."""
    counts = count_bigrams([[1, 2, 3, 1, 2, 3], [1, 2, 4], [7, 8]])
    assert as_dict(counts) == {(1, 2, 3): 2, (1, 2, 4): 1, (2, 3, 1): 1, (3, 1, 2): 1}
    assert (counts.keys, counts.pairs) == (3, 4)


@given(MESSAGES, st.integers(1, 20))
@settings(deadline=None)
def test_counts_equal_those_of_a_counter(messages: list[list[int]], chunk_tokens: int) -> None:
    """Counts are those of a Counter over each message's triples, however the tokens fall into chunks."""
    counts = count_bigrams(messages, chunk_tokens=chunk_tokens)
    expected = count_plainly(messages)
    assert as_dict(counts) == expected
    assert list(as_dict(counts)) == sorted(expected), "sorted, and no pair twice"
    assert counts.keys == len(by_key(expected))


@pytest.mark.parametrize("messages", [[], [[]], [[], []], [[5]], [[5, 6], [], [7]]])
def test_short_messages_have_no_pairs(messages: list[list[int]]) -> None:
    """Fewer than three tokens make no pair, and no error."""
    counts = count_bigrams(messages)
    assert (counts.keys, counts.pairs) == (0, 0)


@pytest.mark.parametrize("bad", [-1, 2**21])
def test_an_id_that_cannot_be_packed_is_refused(bad: int) -> None:
    """An id that would spill into its neighbour is an error, never a wrong count."""
    with pytest.raises(TableError, match=f"token id {bad} cannot be counted"):
        count_bigrams([[1, 2, 3], [4, bad, 6]])


@given(COUNTERS, COUNTERS)
@settings(deadline=None)
def test_merge_adds_up(left: dict[Triple, int], right: dict[Triple, int]) -> None:
    """Merging adds the counts of a pair and keeps all others."""
    merged = merge(from_dict(left), from_dict(right))
    assert as_dict(merged) == Counter(left) + Counter(right)
    assert merged.equals(merge(from_dict(right), from_dict(left)))


@pytest.mark.parametrize("bad", [-1, 2**21])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_an_id_that_cannot_be_packed_is_not_merged(bad: int, column: int) -> None:
    """Merging refuses what counting refuses, in each of the three columns."""
    triple = [1, 2, 3]
    triple[column] = bad
    a, b, third = triple
    with pytest.raises(TableError, match=f"token id {bad} cannot be counted"):
        merge(from_dict({(0, 0, 0): 1}), from_dict({(a, b, third): 1}))


SHARES = st.sampled_from([0.0, 0.07, 0.25, 0.5, 1.0])


RULES = st.fixed_dictionaries(
    {
        "top_k": st.integers(1, 4),
        "min_count": st.integers(1, 40),
        "min_share": SHARES,
        "min_total": st.integers(1, 60),
        "min_top_share": SHARES,
    }
)


@given(COUNTERS, RULES)
@settings(deadline=None)
def test_prune_keeps_what_its_rule_says(counter: dict[Triple, int], rule: dict[str, Any]) -> None:
    """The top k by count, then by smaller id, of those that reach their minimums; keys reach theirs too."""
    expected = {}
    for (a, b), followers in by_key(counter).items():
        total = sum(followers.values())
        if total < rule["min_total"] or max(followers.values()) / total < rule["min_top_share"]:
            continue
        able = [
            (-n, t) for t, n in followers.items() if n >= rule["min_count"] and n / total >= rule["min_share"]
        ]
        expected.update({(a, b, t): -n for n, t in sorted(able)[: rule["top_k"]]})
    pruned = prune(from_dict(counter), **rule)
    assert as_dict(pruned) == expected
    assert list(as_dict(pruned)) == sorted(expected)


def test_prunes_docstring_example_holds() -> None:
    """Of two equal counts the smaller id stays; a count below the minimum goes."""
    counts = from_dict({(1, 2, 3): 5, (1, 2, 4): 2, (1, 2, 5): 2, (1, 2, 6): 1})
    pruned = prune(counts, top_k=2, min_count=2, min_share=0.2)
    assert as_dict(pruned) == {(1, 2, 3): 5, (1, 2, 4): 2}
    for strict in ({"min_total": 11}, {"min_top_share": 0.51}):
        assert not prune(counts, top_k=2, min_count=2, min_share=0.2, **strict).pairs  # type: ignore[arg-type]
    strict_but_met = prune(counts, top_k=2, min_count=2, min_share=0.2, min_total=10, min_top_share=0.5)
    assert as_dict(strict_but_met) == as_dict(pruned)


def test_a_share_on_the_border_stays() -> None:
    """7 of 100 is a share of 0.07, although 0.07 · 100 is a little above 7 in floating point."""
    pruned = prune(from_dict({(1, 2, 3): 7, (1, 2, 4): 93}), top_k=9, min_count=1, min_share=0.07)
    assert pruned.pairs == 2


@given(COUNTERS, st.integers(1, 100))
@settings(deadline=None)
def test_cap_keeps_the_order_within_a_key(counter: dict[Triple, int], cap: int) -> None:
    """No count is above the cap or below 1, no order turns round, the top of a key gets no new rival."""
    capped, capped_keys = cap_counts(from_dict(counter), cap)
    after = by_key(as_dict(capped))
    over = 0
    for key, before in by_key(counter).items():
        top = max(before.values())
        over += top > cap
        assert max(after[key].values()) == min(top, cap)
        assert min(after[key].values()) >= 1
        for t, n in before.items():
            assert all(after[key][t] <= after[key][u] for u, m in before.items() if n <= m)
            if cap > 1 and n < top:
                assert after[key][t] < max(after[key].values())
    assert capped_keys == over


def test_caps_docstring_example_holds() -> None:
    """A key is scaled as a whole; a key below the cap is not touched."""
    capped = cap_counts(from_dict({(1, 2, 3): 1000, (1, 2, 4): 400, (1, 2, 5): 3, (2, 2, 5): 81}), 81)
    assert as_dict(capped.counts) == {(1, 2, 3): 81, (1, 2, 4): 32, (1, 2, 5): 1, (2, 2, 5): 81}
    assert capped.capped_keys == 1


@given(st.integers(1, 2**24))
def test_a_capped_count_cannot_overflow(context_tokens: int) -> None:
    """100 · static · context fits int32 at the stated context count; a cap of one more would not."""
    cap = count_cap_for(context_tokens)
    if cap > 1:
        assert 100 * cap * context_tokens <= INT32_MAX
    if cap < COUNT_LIMIT:
        assert 100 * (cap + 1) * context_tokens > INT32_MAX


def test_the_caps_that_the_docstring_names() -> None:
    """The figures in the docstring are those of the code."""
    assert (count_cap_for(262_144), count_cap_for(32_768)) == (81, 655)
    assert (COUNT_CAP, COUNT_LIMIT) == (81, 21_474_836)


@given(COUNTERS)
@settings(deadline=None)
def test_drafting_keys_follow_llama_cpps_rule(counter: dict[Triple, int]) -> None:
    """Sum at least 2, and 100 · max not below 50 · sum: in the integers that llama.cpp uses."""
    expected = [
        a << 32 | b
        for (a, b), followers in sorted(by_key(counter).items())
        if sum(followers.values()) >= 2 and 100 * max(followers.values()) >= 50 * sum(followers.values())
    ]
    assert drafting_keys(from_dict(counter)).tolist() == expected
