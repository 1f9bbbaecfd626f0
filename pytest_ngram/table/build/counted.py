"""From tokens to what a table holds: counted, pruned and capped part by part, so that memory stays small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pytest_ngram.table import Counts
from pytest_ngram.table.build.manifest import TableParams
from pytest_ngram.table.build.spill import Spill
from pytest_ngram.table.counts import Message, cap_counts, count_parts, drafting_keys, joined, prune


@dataclass(slots=True)
class Counted:
    """What is left of the counts, and how much there was. Names are those of `Manifest`."""

    kept: Counts
    keys_before: int
    pairs_before: int
    drafting_keys: int
    lifted_keys: int
    capped_keys: int


def count(messages: Iterable[Message], params: TableParams) -> Counted:
    """Count the 2-grams of messages, and keep of them what `params` says. Memory is that of what is kept.

    The tokens of a large corpus wait in a temporary file (`Spill`).

    Args:
        messages: token ids of one message each, read once.
        params: what to keep.

    Raises:
        TableError: as `count_bigrams`.
    """
    parts: list[Counts] = []
    counted = Counted(joined([]), 0, 0, 0, 0, 0)
    with Spill() as keep:
        for part in count_parts(messages, keep=keep):
            of_part = keep_of(part, params)
            counted.keys_before += of_part.keys_before
            counted.pairs_before += of_part.pairs_before
            counted.drafting_keys += of_part.drafting_keys
            counted.lifted_keys += of_part.lifted_keys
            counted.capped_keys += of_part.capped_keys
            parts.append(of_part.kept)
    counted.kept = joined(parts)
    return counted


def keep_of(counts: Counts, params: TableParams) -> Counted:
    """Prune and cap counts that hold all there is of each of their keys."""
    kept, capped_keys = cap_counts(_pruned(counts, params), params.count_cap)
    drafting = drafting_keys(kept)
    lifted = np.setdiff1d(drafting, drafting_keys(counts), assume_unique=True)
    return Counted(kept, counts.keys, counts.pairs, len(drafting), len(lifted), capped_keys)


def _pruned(counts: Counts, params: TableParams) -> Counts:
    return prune(
        counts,
        top_k=params.top_k,
        min_count=params.min_count,
        min_share=params.min_share,
        min_total=params.min_total,
        min_top_share=params.min_top_share,
    )
