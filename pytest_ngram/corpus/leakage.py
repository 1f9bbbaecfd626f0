"""How much of a prompt is in a corpus, in tokens. Pure, and exact: what a hash finds is compared.

Worked example: the prompt 1 2 3 4 5 6 7 8 9 and a corpus of one message, 0 1 2 3 4 5 6 7 8 0. The longest
run of both is 8 tokens. The prompt has two 8-grams, 1…8 and 2…9; the first is in the corpus: a share of 0.5.

Message by message: no run and no 8-gram goes over the end of a message, neither in the corpus nor in a prompt
of several turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

GRAM = 8
NEAR_SHARE = 0.8

Ids = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]

# What stands behind each message. Two numbers, which are no ids, so that the end of a turn is found nowhere.
_END_OF_MESSAGE, _END_OF_TURN = -1, -2
_CHUNK_TOKENS = 1 << 18  # its hashes stay in a core's cache
_FILTER_BITS = 20
_MULTIPLIER = 0x9E37_79B9_7F4A_7C15


class Found(msgspec.Struct, frozen=True):
    """What of a prompt is in a corpus.

    `run` is the length of the longest run of tokens that stands in one message, null for a prompt without
    tokens; `run_message` is the first message that has it, by its place in the corpus from 0. `share` is of
    the prompt's 8-grams, counted as often as they stand in it, those that are in the corpus;
    `of_one_message` the largest share that a single message has. `exact` are the messages equal to a turn
    of at least 8 tokens, `near` the others with 0.8 or more of all 8-grams. All but `run` are null for a
    prompt without an 8-gram: a word or two say nothing of where they are from.
    """

    run: int | None
    run_message: int | None
    share: float | None
    of_one_message: float | None
    exact: tuple[int, ...] | None
    near: tuple[int, ...] | None


def find(prompts: Sequence[Sequence[Ids]], messages: Sequence[Ids]) -> list[Found]:
    """Look for prompts in a corpus.

    Args:
        prompts: of each prompt its turns, each the ids of its own words, of shape (tokens,).
        messages: the ids of each message, of shape (tokens,), none negative.

    Returns:
        one for each prompt, in order.
    """
    corpus = _joined(messages, _END_OF_MESSAGE)
    texts = [_joined(turns, _END_OF_TURN) for turns in prompts]
    grams = _Windows([text.tokens for text in texts], GRAM)
    hits = _Hits.all_of(grams.look(corpus.tokens))
    found = [_found(text, grams.ids[i], hits, corpus) for i, text in enumerate(texts)]
    return _with_short_runs(found, texts, corpus)


def leak(run: int | None, share: float | None, *, max_run_tokens: int, max_share: float) -> str | None:
    """Return what makes a prompt a leak, None where it is within both bounds. What is unknown is within."""
    if run is not None and run > max_run_tokens:
        return f"a run of {run} tokens"
    if share is not None and share > max_share:
        return f"{share:.0%} of its {GRAM}-grams"
    return None


@dataclass(frozen=True)
class _Joined:
    """Texts in one array, each with an end behind it; text i is `tokens[starts[i] : starts[i + 1] - 1]`."""

    tokens: Ids
    starts: _Longs

    @property
    def lengths(self) -> _Longs:
        return np.diff(self.starts) - 1

    def text_of(self, places: _Longs) -> _Longs:
        """Which text each place of `tokens` is in."""
        return np.searchsorted(self.starts, places, side="right") - 1


def _joined(texts: Sequence[Ids], end: int) -> _Joined:
    last = np.array([end], dtype=np.int32)
    pieces = [piece for text in texts for piece in (text, last)]
    tokens = np.concatenate(pieces).astype(np.int32, copy=False) if pieces else last[:0]
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    return _Joined(tokens, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]))


@dataclass(frozen=True)
class _Hits:
    """Where windows of prompts stand in a corpus: places in ascending order, and which window is there."""

    at: _Longs
    ids: _Longs

    @classmethod
    def all_of(cls, parts: Iterator[_Hits]) -> _Hits:
        found = [cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)), *parts]
        return cls(np.concatenate([hits.at for hits in found]), np.concatenate([hits.ids for hits in found]))

    def among(self, wanted: npt.NDArray[np.bool_]) -> _Hits:
        return _Hits(self.at[wanted], self.ids[wanted])


class _Windows:
    """The distinct windows of `width` tokens of some texts, and a quick way to find them in a corpus.

    `ids` has for each text the window at each of its places, -1 where a turn ends inside.
    """

    def __init__(self, texts: Sequence[Ids], width: int) -> None:
        self._width = width
        views = [_views(text, width) for text in texts]
        every = np.concatenate([np.zeros((0, width), dtype=np.int32), *views])
        whole = (every != _END_OF_TURN).all(axis=1)
        self._rows, inverse = np.unique(every[whole], axis=0, return_inverse=True)
        ids = np.full(len(every), -1, dtype=np.int64)
        ids[whole] = inverse.reshape(-1)
        self.ids = np.split(ids, np.cumsum([len(view) for view in views])[:-1]) if views else []
        self._multiplier, hashes = self._hash_apart()
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]
        self._filter = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        self._filter[hashes >> np.uint64(64 - _FILTER_BITS)] = True

    def __len__(self) -> int:
        return len(self._rows)

    def look(self, tokens: Ids) -> Iterator[_Hits]:
        """Yield where these windows stand in a corpus, a chunk at a time."""
        for begin in range(0, len(tokens) if len(self) else 0, _CHUNK_TOKENS):
            chunk = tokens[begin : begin + _CHUNK_TOKENS + self._width - 1]
            if len(chunk) >= self._width:
                hits = self._look(chunk)
                yield _Hits(hits.at + begin, hits.ids)

    def _look(self, chunk: Ids) -> _Hits:
        hashes = _hashes(chunk, self._width, self._multiplier)
        at = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
        place = np.searchsorted(self._hashes, hashes[at])
        place[place == len(self)] = 0
        alike = self._hashes[place] == hashes[at]
        at, ids = at[alike], self._order[place[alike]]
        same = (_views(chunk, self._width)[at] == self._rows[ids]).all(axis=1)
        return _Hits(at[same], ids[same])

    def _hash_apart(self) -> tuple[int, _Hashes]:
        """A multiplier by which no two of these windows have one hash, and their hashes by it."""
        multiplier = _MULTIPLIER
        while True:
            hashes = _hashes(self._rows, self._width, multiplier).reshape(-1)
            if len(np.unique(hashes)) == len(hashes):
                return multiplier, hashes
            multiplier = (multiplier * 5 + 2) % (1 << 64) | 1


def _views(tokens: Ids, width: int) -> Ids:
    """All windows of so many tokens, of shape (windows, width), without a copy."""
    if len(tokens) < width:
        return np.zeros((0, width), dtype=np.int32)
    return np.lib.stride_tricks.sliding_window_view(tokens, width)


def _hashes(tokens: Ids, width: int, multiplier: int) -> _Hashes:
    """A hash of each window along the last axis: the sum of id i × multiplier^(width - i), modulo 2^64.

    Put together from halves, so that 8 tokens take 3 steps.
    """
    if width == 1:
        return tokens.astype(np.uint64) * np.uint64(multiplier)
    half = width // 2
    left = _hashes(tokens, half, multiplier)
    right = left if 2 * half == width else _hashes(tokens, width - half, multiplier)
    count = tokens.shape[-1] - width + 1
    weight = np.uint64(pow(multiplier, width - half, 1 << 64))
    both: _Hashes = left[..., :count] * weight + right[..., half : half + count]
    return both


def _found(text: _Joined, own: _Longs, hits: _Hits, corpus: _Joined) -> Found:
    """What is to be said of one prompt; `own` are its 8-grams, place by place."""
    whole = own[own >= 0]
    run, run_message = (0, None) if len(text.tokens) > len(text.lengths) else (None, None)
    if not len(whole):
        return Found(run, run_message, None, None, None, None)
    grams = np.bincount(whole)
    known = hits.ids < len(grams)
    known[known] = grams[hits.ids[known]] > 0
    hits = hits.among(known)
    exact = _equal_messages(text, corpus)
    if not len(hits.at):
        return Found(0, None, 0.0, 0.0, exact, ())
    longest, at = _longest(own, hits)
    shares = _share_by_message(grams, hits, corpus)
    near = tuple(each for each, share in shares.items() if share >= NEAR_SHARE and each not in exact)
    shared = grams[np.unique(hits.ids)].sum() / len(whole)
    first = int(corpus.text_of(np.array([at]))[0])
    return Found(longest, first, float(shared), max(shares.values()), exact, near)


def _share_by_message(grams: _Longs, hits: _Hits, corpus: _Joined) -> dict[int, float]:
    """The share of a prompt's 8-grams that each message has which has any; `grams` counts them by id."""
    pairs = np.unique(corpus.text_of(hits.at) * len(grams) + hits.ids)
    messages, of_message = np.unique(pairs // len(grams), return_inverse=True)
    shares = np.bincount(of_message, weights=grams[pairs % len(grams)]) / grams.sum()
    return dict(zip(messages.tolist(), shares.tolist(), strict=True))


def _equal_messages(text: _Joined, corpus: _Joined) -> tuple[int, ...]:
    """The messages that are equal to a turn of at least 8 tokens."""
    equal: set[int] = set()
    for start, length in zip(text.starts.tolist(), text.lengths.tolist(), strict=False):
        if length >= GRAM:
            turn = text.tokens[start : start + length]
            alike = np.flatnonzero(corpus.lengths == length)
            rows = corpus.tokens[corpus.starts[alike][:, np.newaxis] + np.arange(length)]
            equal.update(alike[(rows == turn).all(axis=1)].tolist())
    return tuple(sorted(equal))


def _longest(own: _Longs, hits: _Hits) -> tuple[int, int]:
    """The length of the longest run, and its first place in the corpus, from the 8-grams that both have.

    Two windows at a distance of at most their width are one longer window: doubled until none is left, then
    searched by halves in between, since a part of a run is a run.
    """
    width = GRAM
    while True:
        longer = _widened(own, hits, width)
        if not len(longer[1].at):
            break
        own, hits, width = *longer, 2 * width
    low, high, at = width, 2 * width - 1, hits.at[0]
    while low < high:
        middle = (low + high + 1) // 2
        _, found = _widened(own, hits, middle - width)
        if len(found.at):
            low, at = middle, found.at[0]
        else:
            high = middle - 1
    return low, int(at)


def _widened(own: _Longs, hits: _Hits, by: int) -> tuple[_Longs, _Hits]:
    """Windows that are `by` tokens wider, as pairs of those given: a prompt's own, and those of the corpus.

    `by` is at most the width of those given, so that a pair leaves no token out.
    """
    left, right = own[: max(0, len(own) - by)], own[by:]
    whole = (left >= 0) & (right >= 0)
    size = int(own.max()) + 1
    pairs, inverse = np.unique(left[whole] * size + right[whole], return_inverse=True)
    wider = np.full(len(left), -1, dtype=np.int64)
    wider[whole] = inverse
    other = np.searchsorted(hits.at, hits.at + by)
    other[other == len(hits.at)] = 0
    first = np.flatnonzero(hits.at[other] == hits.at + by)
    theirs = hits.ids[first] * size + hits.ids[other[first]]
    place = np.searchsorted(pairs, theirs)
    place[place == len(pairs)] = 0
    known = pairs[place] == theirs if len(pairs) else np.zeros(len(theirs), dtype=np.bool_)
    return wider, _Hits(hits.at[first[known]], place[known])


def _with_short_runs(found: Sequence[Found], texts: Sequence[_Joined], corpus: _Joined) -> list[Found]:
    """Look for runs of fewer than 8 tokens where there is no longer one, the longest first."""
    ended = list(found)
    for width in range(GRAM - 1, 0, -1):
        left = [i for i, each in enumerate(ended) if each.run == 0]
        windows = _Windows([texts[i].tokens for i in left], width)
        for hits in windows.look(corpus.tokens):
            seen = np.zeros(len(windows) + 1, dtype=np.bool_)  # the last for the -1 of no window
            seen[hits.ids] = True
            for own, i in zip(windows.ids, left, strict=True):
                if ended[i].run == 0 and seen[own].any():
                    at = hits.at[np.isin(hits.ids, own)][:1]
                    first = int(corpus.text_of(at)[0])
                    ended[i] = msgspec.structs.replace(ended[i], run=width, run_message=first)
            if all(ended[i].run for i in left):
                break
    return ended
