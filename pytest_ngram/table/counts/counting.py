"""Counting 2-grams: which third token followed two tokens, how often. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ngram.table import Counts, Longs
from pytest_ngram.table.counts.packing import group_starts, packed, require_packable, unpacked
from pytest_ngram.table.counts.runs import Keep, Run, in_memory, merged

Message = Sequence[int] | npt.NDArray[Any]

CHUNK_TOKENS = 1 << 21


def count_bigrams(
    messages: Iterable[Message], *, chunk_tokens: int = CHUNK_TOKENS, keep: Keep = in_memory
) -> Counts:
    """Count the third token of every two, inside each message only.

    Of the messages `[1 2 3 1 2 3]`, `[1 2 4]` and `[7 8]` the first holds (1 2)→3 twice, (2 3)→1 and
    (3 1)→2; the second holds (1 2)→4; the third is too short. So::

        key_a  key_b  third  count
            1      2      3      2
            1      2      4      1
            2      3      1      1
            3      1      2      1

    Nothing is counted across a seam, so (2 3)→1 is one, not two. These are the counts that
    `llama-lookup-create` would make of each message alone.

    Args:
        messages: token ids of one message each, read once and not kept; integer arrays are fastest.
        chunk_tokens: how many tokens are sorted at a time, about 40 bytes each.
        keep: where sorted chunks stay until all are there, 8 bytes for each token.

    Raises:
        TableError: an id is below 0 or needs more than 21 bits.

    The result takes 20 bytes for each pair: where that is too much, `count_parts` gives it piece by piece.
    """
    return joined(count_parts(messages, chunk_tokens=chunk_tokens, keep=keep))


def count_parts(
    messages: Iterable[Message], *, chunk_tokens: int = CHUNK_TOKENS, keep: Keep = in_memory
) -> Iterator[Counts]:
    """Yield `count_bigrams` in parts, ascending, each of about `chunk_tokens` tokens.

    A key is in one part alone, so what is done by key (`prune`, `cap_counts`, `drafting_keys`) can be done
    part by part, and only what it leaves has to be kept.
    """
    runs = [Run(triples, keep) for triples in _sorted_chunks(messages, chunk_tokens)]
    for triples in merged(runs, chunk_tokens):
        if len(triples):
            yield _counted(triples)


def joined(parts: Iterable[Counts]) -> Counts:
    """Put parts that ascend end to end. Memory is that of the result and one of its columns."""
    columns: tuple[list[Any], ...] = ([], [], [], [])
    for part in parts:
        for column, of_part in zip(columns, (part.key_a, part.key_b, part.third, part.count), strict=True):
            column.append(of_part)
    whole = []
    for column, kind in zip(columns, (np.int32, np.int32, np.int32, np.int64), strict=True):
        whole.append(np.concatenate([np.zeros(0, kind), *column]))
        column.clear()
    return Counts(*whole)


def _sorted_chunks(messages: Iterable[Message], chunk_tokens: int) -> Iterator[Longs]:
    pieces: list[npt.NDArray[Any]] = []
    held = 0
    for piece in _pieces(messages, chunk_tokens):
        pieces.append(piece)
        held += len(piece)
        if held >= chunk_tokens:
            yield _sorted_triples(pieces)
            pieces, held = [], 0
    if pieces:
        yield _sorted_triples(pieces)


def _pieces(messages: Iterable[Message], chunk_tokens: int) -> Iterator[npt.NDArray[Any]]:
    """Messages of three tokens or more; a long one in pieces that share two tokens, so no triple is lost."""
    for message in messages:
        ids = message if isinstance(message, np.ndarray) else np.array(message, np.int64)
        for begin in range(0, len(ids) - 2, chunk_tokens):
            yield ids[begin : begin + chunk_tokens + 2]


def _sorted_triples(pieces: Sequence[npt.NDArray[Any]]) -> Longs:
    ids = np.concatenate(pieces)
    require_packable(ids)
    triples = packed(ids[:-2], ids[1:-1], ids[2:])
    # The last two tokens of a piece begin no triple of their own. They are sorted to the end and cut off
    # there: the largest triple of all has the same value, and may take the place of one of them.
    ends = np.cumsum([len(piece) for piece in pieces])[:-1]
    triples[ends - 1] = triples[ends - 2] = np.iinfo(np.int64).max
    triples.sort()
    return triples[: len(triples) - 2 * len(ends)]


def _counted(triples: Longs) -> Counts:
    starts = group_starts(triples)
    return unpacked(triples[starts], np.diff(starts, append=len(triples)))
