"""Static tables that are wrong in one way each, to see what the loader makes of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def record(tokens: Sequence[int], pairs: Sequence[tuple[int, int]], *, n_pairs: int | None = None) -> bytes:
    """Return one record of the file: four key slots, the number of pairs, and the pairs."""
    key = [*tokens, *[-1] * (4 - len(tokens))]
    count = len(pairs) if n_pairs is None else n_pairs
    flat = [number for pair in pairs for number in pair]
    return struct.pack(f"<{5 + len(flat)}i", *key, count, *flat)


def wrong_tables(n_vocab: int) -> dict[str, bytes | None]:
    """Return a file's bytes by what is wrong with it; None for the file that is not there.

    Args:
        n_vocab: tokens of the model's vocabulary, beyond which no id means anything.
    """
    good = record((1, 2), [(3, 4)])
    return {
        "missing": None,
        "cut-record": good[:-4],
        "no-pairs": good + record((2, 3), []),
        "count-0": good + record((2, 3), [(4, 0)]),
        "trailing-bytes": good + b"\0\0\0\0",
        "duplicate-keys": good + good,
        "empty": b"",
        "another-vocabulary": record((n_vocab + 1, n_vocab + 2), [(n_vocab + 3, 4)]),
    }
