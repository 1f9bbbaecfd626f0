"""Many texts to token ids in few requests: texts share a request, and several are under way at a time.

`/tokenize` takes a list of texts and ids. It tokenizes each text by itself and passes each id on, so an id
that no vocabulary has shows where a text ends (b10229 to b11549, `tokenize_mixed` in llama.cpp's server).
Whether a server does so is tried, never assumed: one that does not is asked for each text alone. A server
tokenizes in the thread of the connection, so several connections use several of its cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from pytest_ngram.errors import EngineError

Ids = npt.NDArray[np.int32]
Content = str | list[str | int]

SEAM = -1
# Two keep two cores busy while the answer of a third is read.
CONNECTIONS = 3
# Of the text of one request. Less costs requests; more leaves a core idle while the last one is answered.
REQUEST_BYTES = 1 << 16

# What might be read differently beside another text: a space or nothing at the border, a letter that goes on,
# an empty text, and control tokens that have to stay text.
PROBE = ("a b", " c", "d", "", "e ", "\n\nf", "<|im_end|>", "</s>", "<eos>", " ", "é 12345", "g")


class ManyTexts:
    """Asks one server.

    Args:
        ask: `content` of a `/tokenize` request and the bytes of its text → ids, each text without BOS and
            with control tokens left as text. It is called from several threads. Raises `EngineError`.
        cut: ends the requests that are under way, when the user ends the run.
        request_bytes: of text in one request, except for a single text that is longer.
    """

    def __init__(
        self,
        ask: Callable[[Content, int], Ids],
        *,
        cut: Callable[[], None] = lambda: None,
        request_bytes: int = REQUEST_BYTES,
    ) -> None:
        self._ask = ask
        self._cut = cut
        self._request_bytes = request_bytes
        self._shared: bool | None = None

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text as if it stood alone. Raises `EngineError`; then none are returned."""
        groups = list(self._groups(texts))
        if not groups:
            return []
        pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="tokenize")
        try:
            return [ids for answers in pool.map(self._ask_group, groups) for ids in answers]
        except (KeyboardInterrupt, SystemExit):
            self._cut()  # a long text takes a minute
            raise
        finally:
            # what is under way is waited for: it is one request of each connection
            pool.shutdown(cancel_futures=True)

    def shares(self) -> bool:
        """Whether the server keeps the texts of one request apart; asked once."""
        if self._shared is None:
            alone = [self._ask(text, len(text)) for text in PROBE]
            try:
                together = self._ask_group(PROBE)
            except EngineError as error:
                if error.outcome != "refused":
                    raise
                self._shared = False
            else:
                self._shared = len(together) == len(alone) and all(map(np.array_equal, together, alone))
        return self._shared

    def _groups(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        begin = size_bytes = 0
        for at, text in enumerate(texts):
            n_bytes = len(text.encode())
            full = size_bytes + n_bytes > self._request_bytes
            if at > begin and (full or not self.shares()):
                yield texts[begin:at]
                begin, size_bytes = at, 0
            size_bytes += n_bytes
        if begin < len(texts):
            yield texts[begin:]

    def _ask_group(self, texts: Sequence[str]) -> list[Ids]:
        size_bytes = sum(len(text.encode()) for text in texts)
        if len(texts) == 1:
            return [self._ask(texts[0], size_bytes)]
        content: list[str | int] = [part for text in texts for part in (text, SEAM)]
        ids = self._ask(content, size_bytes)
        ends = np.flatnonzero(ids == SEAM)
        if len(ends) != len(texts) or ends[-1] != len(ids) - 1:
            raise EngineError(
                "the server did not keep the texts of one request apart",
                outcome="refused",
                checked=[f"{len(texts)} texts were asked for, {len(ends)} came back"],
                fix="use a build of llama.cpp that the documentation lists",
            )
        return [ids[begin:end] for begin, end in zip([0, *(ends[:-1] + 1)], ends, strict=True)]
