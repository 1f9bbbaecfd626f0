"""What to keep of counts, what llama.cpp can compute with, and what it drafts from. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_ngram.table import COUNT_LIMIT, INT32_MAX, Counts, Longs

# The longest context of the models that this project is for; see `count_cap_for`.
CONTEXT_TOKENS = 1 << 18


def prune(
    counts: Counts,
    *,
    top_k: int,
    min_count: int,
    min_share: float,
    min_total: int = 1,
    min_top_share: float = 0.0,
) -> Counts:
    """Keep the continuations of each key that are worth their 8 bytes, of the keys that are worth their 20.

    A key stays if its counts sum to at least `min_total` and its most frequent continuation is at least
    `min_top_share` of them. Of such a key a pair stays if its count is at least `min_count`, if it is at
    least `min_share` of all that followed the key, and if it is among the `top_k` most frequent of those; of
    equal counts the smaller token id stays. Sums and shares are those before pruning. A key without pairs is
    gone.

    With `top_k` 2, `min_count` 2, `min_share` 0.2, the key (1 2) followed by 3 five times, by 4 and 5 twice
    each and by 6 once, ten in all: 6 fails `min_count`; 3, 4 and 5 pass with shares 0.5, 0.2 and 0.2; of 4
    and 5, equal, 4 stays. What is left is (1 2)→3: 5, (1 2)→4: 2. A `min_total` of 11, or a `min_top_share`
    above 0.5, would leave nothing of the key.

    Pruning drops the tail that llama.cpp would have divided by: the share of 3 was 5 of 10 and is 5 of 7.
    `drafting_keys` before and after tells which keys draft only because of that.

    Args:
        top_k: pairs of a key, at least 1.
        min_count: at least 1, which keeps all.
        min_share: 0 to 1; 0 keeps all.
        min_total: at least 1, which keeps all.
        min_top_share: 0 to 1; 0 keeps all.
    """
    if not counts.pairs:
        return counts
    total, top = _key_totals(counts), _key_tops(counts)
    worth = (total >= min_total) & (top / total >= min_top_share)
    kept = counts.where(worth & (counts.count >= min_count) & (counts.count / total >= min_share))
    starts = kept.key_starts()
    key = np.repeat(np.arange(len(starts)), np.diff(starts, append=kept.pairs))
    by_rank = np.lexsort((kept.third, -kept.count, key))
    # Keys are in order in both sortings, so a key's rows begin at the same place in each.
    rank = np.arange(kept.pairs) - starts[key]
    keep = np.zeros(kept.pairs, np.bool_)
    keep[by_rank[rank < top_k]] = True
    return kept.where(keep)


def _key_totals(counts: Counts) -> Longs:
    """For each row the sum of the counts of its key: int64 of shape (pairs,)."""
    starts = counts.key_starts()
    totals: Longs = np.add.reduceat(counts.count, starts)
    return np.repeat(totals, np.diff(starts, append=counts.pairs))


def _key_tops(counts: Counts) -> Longs:
    """For each row the largest count of its key: int64 of shape (pairs,)."""
    starts = counts.key_starts()
    tops: Longs = np.maximum.reduceat(counts.count, starts)
    return np.repeat(tops, np.diff(starts, append=counts.pairs))


def count_cap_for(context_tokens: int) -> int:
    """The largest count that cannot overflow while a slot has learned at most `context_tokens` tokens.

    llama.cpp weights a candidate of the context table by the static one in int32, as
    `100 · static count · context count`. A context count is at most the number of tokens that the slot has
    learned, so the product fits while static count ≤ (2³¹ − 1) ÷ (100 · `context_tokens`): 81 for 262 144
    tokens, 655 for 32 768. `100 · count` alone, in the step that uses the static table by itself, fits up to
    21 474 836 (`COUNT_LIMIT`). The context table outlives a request, so it is tokens since the server started
    that count, and only those that repeat one and the same continuation.
    """
    return max(1, min(COUNT_LIMIT, INT32_MAX // (100 * context_tokens)))


COUNT_CAP = count_cap_for(CONTEXT_TOKENS)


class Capped(NamedTuple):
    """What `cap_counts` made, and how many keys it had to scale down."""

    counts: Counts
    capped_keys: int


def cap_counts(counts: Counts, cap: int) -> Capped:
    """Scale down the keys whose largest count is above `cap`, so that the largest becomes `cap`.

    A key is scaled as a whole, rounding down but never below 1. llama.cpp compares counts of one key only
    with each other, so proportions are what must survive: 1000, 400 and 3 capped at 81 become 81, 32 and 1.
    Cutting each at 81 would make 81, 81 and 3, a tie that the hash order of a map decides. What was below
    the largest stays below it. A share that is within 1/`cap` of llama.cpp's 50 % may end on its other side.
    """
    starts = counts.key_starts()
    if not len(starts):
        return Capped(counts, 0)
    largest = np.maximum.reduceat(counts.count, starts)
    top = _key_tops(counts)
    scaled = np.maximum(1, counts.count * cap // np.maximum(top, 1))
    count = np.where(top > cap, scaled, counts.count)
    capped_keys = int(np.count_nonzero(largest > cap))
    return Capped(Counts(counts.key_a, counts.key_b, counts.third, count), capped_keys)


def drafting_keys(counts: Counts) -> Longs:
    """The keys from which llama.cpp drafts by the static table alone, as `key_a · 2³² + key_b`, ascending.

    Its rule (b11434, `common/ngram-cache.cpp`): the counts of the key sum to at least 2, and the largest is
    at least half of the sum. {3: 5, 4: 2} drafts 3; {3: 2, 4: 2, 5: 1} drafts nothing; {3: 1, 4: 1} drafts 3
    or 4, as the hash order of a map decides; {3: 1} drafts nothing. All other keys only weight the candidates
    of the context and dynamic tables.
    """
    starts = counts.key_starts()
    if not len(starts):
        return np.zeros(0, np.int64)
    largest = np.maximum.reduceat(counts.count, starts)
    total = np.add.reduceat(counts.count, starts)
    at = starts[(total >= 2) & (2 * largest >= total)]
    return counts.key_a[at].astype(np.int64) << 32 | counts.key_b[at].astype(np.int64)
