"""Counting 2-grams, adding counts up, pruning and capping them. Pure."""

from pytest_ngram.table.counts.counting import Message, count_bigrams, count_parts, joined
from pytest_ngram.table.counts.merging import merge
from pytest_ngram.table.counts.pruning import (
    CONTEXT_TOKENS,
    COUNT_CAP,
    Capped,
    cap_counts,
    count_cap_for,
    drafting_keys,
    prune,
)
from pytest_ngram.table.counts.runs import Keep, Kept

__all__ = [
    "CONTEXT_TOKENS",
    "COUNT_CAP",
    "Capped",
    "Keep",
    "Kept",
    "Message",
    "cap_counts",
    "count_bigrams",
    "count_cap_for",
    "count_parts",
    "drafting_keys",
    "joined",
    "merge",
    "prune",
]
