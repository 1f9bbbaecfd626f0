"""Keeps the token out of the logs of the HTTP libraries, which write down what a server says."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

HIDDEN = "[token]"
_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11")


class _Hides(logging.Filter):
    """Takes a word out of what is logged."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, without the word."""
        text = record.getMessage()
        if self._secret in text:
            record.msg, record.args = text.replace(self._secret, HIDDEN), ()
        return True


@contextlib.contextmanager
def without(secret: str) -> Iterator[None]:
    """Within it, these logs do not show the word, even where a server sends it back."""
    hides = _Hides(secret)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(hides)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hides)
