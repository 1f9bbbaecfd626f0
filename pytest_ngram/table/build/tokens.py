"""The tokens of a corpus, message by message: those known from before, and those made now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pytest_ngram.corpus import Message
from pytest_ngram.errors import TableError
from pytest_ngram.table import Ids
from pytest_ngram.table.build.token_cache import TokenCache
from pytest_ngram.table.build.tokenizing import Ahead, TokenizeMany

# So much text at a time: enough to keep a tokenizer busy, little enough to be lost by Ctrl-C.
BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the tokens of a corpus are.

    Args:
        messages, size_bytes: done so far, with the text's bytes in UTF-8.
        of_messages, of_bytes: in all.
        tokens: of those done.
        known: messages of those done that did not have to be tokenized.
    """

    of_messages: int
    of_bytes: int
    messages: int = 0
    size_bytes: int = 0
    tokens: int = 0
    known: int = 0


OnProgress = Callable[[Progress], None]


class _Asked(NamedTuple):
    """A batch whose missing texts are being tokenized, by digest; `answer` waits for their ids."""

    batch: Sequence[Message]
    known: dict[bytes, Ids]
    missing: dict[bytes, Message]
    answer: Callable[[], list[Ids]]


class Tokens:
    """Yields the ids of each message, and counts. `progress` is what was yielded so far.

    Args:
        messages: of a corpus.
        tokenize: called with about 1 MB of text at a time, and only for what the cache lacks; one batch
            ahead of what is yielded, in another thread.
        n_vocab: ids have to be below.
        cache: of this vocabulary, or None.
        on_progress: called after each batch.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        tokenize: TokenizeMany,
        n_vocab: int,
        *,
        cache: TokenCache | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._messages = messages
        self._tokenize = tokenize
        self._n_vocab = n_vocab
        self._cache = cache
        self._on_progress = on_progress
        self.progress = Progress(len(messages), sum(message.size_bytes for message in messages))

    def __iter__(self) -> Iterator[Ids]:
        with Ahead(self._tokenize) as tokenize:
            asked: _Asked | None = None
            for batch in _batches(self._messages):
                before, asked = asked, self._ask(batch, tokenize)
                yield from self._answered(before)
            yield from self._answered(asked)

    def _ask(self, batch: Sequence[Message], tokenize: Ahead) -> _Asked:
        """Look up what is known and begin to tokenize the rest, each text once however often it is said."""
        known = self._cache.get([message.digest for message in batch]) if self._cache is not None else {}
        missing = {message.digest: message for message in batch if message.digest not in known}
        return _Asked(batch, known, missing, tokenize([message.content for message in missing.values()]))

    def _answered(self, asked: _Asked | None) -> Iterator[Ids]:
        if asked is None:
            return
        known, made = asked.known, self._made(asked)
        arrays = [made[m.digest] if m.digest in made else known[m.digest] for m in asked.batch]
        before = self.progress
        self.progress = replace(
            before,
            messages=before.messages + len(asked.batch),
            size_bytes=before.size_bytes + sum(message.size_bytes for message in asked.batch),
            tokens=before.tokens + sum(map(len, arrays)),
            known=before.known + sum(message.digest in known for message in asked.batch),
        )
        if self._on_progress is not None:
            self._on_progress(self.progress)
        yield from arrays

    def _made(self, asked: _Asked) -> dict[bytes, Ids]:
        arrays = asked.answer()
        if arrays and _outside(np.concatenate(arrays), self._n_vocab):
            for message, ids in zip(asked.missing.values(), arrays, strict=True):
                self._require_inside(message, ids)
        made = dict(zip(asked.missing, arrays, strict=True))
        if self._cache is not None and made:
            self._cache.put(made)
        return made

    def _require_inside(self, message: Message, ids: Ids) -> None:
        if _outside(ids, self._n_vocab):
            raise TableError(
                f"the tokenizer gave ids {ids.min()} to {ids.max()} in a vocabulary of {self._n_vocab}",
                checked=[f"the message in line {message.line} of corpus {message.file + 1}"],
                fix="tokenize with the model that the table is for",
            )


def _outside(ids: Ids, n_vocab: int) -> bool:
    return bool(len(ids)) and not 0 <= ids.min() <= ids.max() < n_vocab


def _batches(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    start = size_bytes = 0
    for end, message in enumerate(messages, start=1):
        size_bytes += message.size_bytes
        if size_bytes >= BATCH_BYTES:
            yield messages[start:end]
            start, size_bytes = end, 0
    if start < len(messages):
        yield messages[start:]
