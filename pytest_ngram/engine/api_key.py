"""The key of a server at a URL: taken from the environment, sent as a bearer token, and shown nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pytest_ngram.errors import EngineError

# The first that is set counts; the second is llama-server's own.
VARIABLES = ("PYTEST_NGRAM_API_KEY", "LLAMA_API_KEY")
HIDDEN = "[key]"
_SECRET_NAMES = frozenset({"hftoken", "hft"})
# A word as a shell reads it, quotes within it and all; one that is not closed goes on to the end.
_WORD = r"""(?:'[^']*'?|"(?:\\[\s\S]|[^"\\])*"?|\\[\s\S]?|[^\s'"\\])+"""
_AMONG_WORDS = re.compile(
    rf"(?P<flag>--?(?:(?:\w*[-_])?api[-_]?keys?(?:[-_]file)?|hf[-_]token|hft)(?:=|\s+)){_WORD}",
    re.IGNORECASE,
)
_USER = re.compile(r"(?P<scheme>[\w+.-]+://)[^\s/]*@")


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


def is_secret(word: str) -> bool:
    """Whether a word of a command line is a flag whose value nobody else may see, misspelt or with `=`."""
    name = word.partition("=")[0].lower().replace("-", "").replace("_", "")
    return word.startswith("-") and ("apikey" in name or name in _SECRET_NAMES)


def without_secrets(text: str) -> str:
    """Return a command line, or an argument of one, without keys after their flags and users of addresses."""
    return _USER.sub(rf"\g<scheme>{HIDDEN}@", _AMONG_WORDS.sub(rf"\g<flag>{HIDDEN}", text))


def hidden(text: str, key: str | None) -> str:
    """Return `text` without the key."""
    return text.replace(key, HIDDEN) if key else text
