"""A tokenizer whose server starts with the first text: tables and tokens that are known start none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_ngram.measure.server import Server
from pytest_ngram.table import Ids


class LazyTokenizer:
    """Texts to ids through a server's `/tokenize`. As a context manager it ends the server.

    Args:
        start: starts the server.
    """

    def __init__(self, start: Callable[[], Server]) -> None:
        self._start = start
        self._server: Server | None = None

    def __enter__(self) -> LazyTokenizer:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.stop()

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text. Control tokens that somebody wrote in a chat are text there.

        Raises:
            EngineError: the server cannot be started, died, hung or refused.
        """
        if self._server is None:
            self._server = self._start()
        with self._server.failing_fast():
            return self._server.client.tokenize_many(texts)
