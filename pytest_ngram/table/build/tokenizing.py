"""How the texts of a corpus become token ids: many at a time, through a server's `/tokenize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pytest_ngram.table import Ids

# The ids of each text as if it stood alone (no BOM, no BOS, control tokens in it left as text): one int32
# array of shape (tokens,) for each text, in their order.
TokenizeMany = Callable[[Sequence[str]], list[Ids]]


class Ahead:
    """Calls a tokenizer in another thread, so that it works while what it made before is used.

    The first call is made at once: it may start a server, which ends with the thread that started it. As a
    context manager it waits for the call that runs, and drops what has not begun.

    Args:
        tokenize: called from one thread at a time.
    """

    def __init__(self, tokenize: TokenizeMany) -> None:
        self._tokenize = tokenize
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def __call__(self, texts: Sequence[str]) -> Callable[[], list[Ids]]:
        """Begin; what is returned waits for the ids, or raises what `tokenize` raised."""
        if not texts:
            return list
        if self._thread is None:
            ids = self._tokenize(texts)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenize-ahead")
            return lambda: ids
        return self._thread.submit(self._tokenize, texts).result
