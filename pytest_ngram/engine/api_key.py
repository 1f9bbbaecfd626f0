"""The key of a server at a URL: taken from the environment, sent as a bearer token, and shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_ngram.errors import EngineError

# The first that is set counts; the second is llama-server's own.
VARIABLES = ("PYTEST_NGRAM_API_KEY", "LLAMA_API_KEY")
HIDDEN = "[key]"


def of_environment(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the key, None where none is set.

    Raises:
        EngineError: outcome `refused`: it cannot stand in a header. The message does not show it.
    """
    for name in VARIABLES:
        key = environment.get(name, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise EngineError(
                f"the key in {name} cannot be sent",
                outcome="refused",
                checked=["it holds a space, a line end, or a letter that is not ASCII"],
                fix="set one key, as the server's --api-key has it",
            )
        return key
    return None


def hidden(text: str, key: str | None) -> str:
    """Return `text` without the key."""
    return text.replace(key, HIDDEN) if key else text
