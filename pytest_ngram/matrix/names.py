"""Ids that stand in test ids: their letters, and no collision with what `pytest -k` is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_ngram.matrix.strict import fail

_ID = re.compile(r"[a-z0-9][a-z0-9._+-]{0,63}")
_MIN_WORD = 3  # shorter parts, such as the `k` of ngram-map-k, stand in ordinary words


def check_id(file: str, path: str, name: str) -> None:
    """Fail unless the name can stand in a test id and be typed after `-k`."""
    if not _ID.fullmatch(name):
        fail(
            file,
            path,
            f"{name!r} cannot be an id",
            checked=["allowed: up to 64 small letters, digits, and . _ + - inside"],
            fix="rename it",
        )


def config_words(config_ids: Iterable[str]) -> frozenset[str]:
    """Return what a user may type after `-k` to mean a config.

    `mtp1+ngram-simple` gives itself, `mtp1`, `mtp`, `ngram` and `simple`.
    """
    words: set[str] = set()
    for config_id in config_ids:
        words.add(config_id)
        for part in re.split(r"[+.\-_]", config_id):
            words |= {word for word in (part, part.rstrip("0123456789")) if len(word) >= _MIN_WORD}
    return frozenset(words)


def check_no_config_word(file: str, path: str, what: str, name: str, words: Iterable[str]) -> None:
    """Fail if `-k` with a config's word would also pick this id."""
    hit = sorted(word for word in words if word in name.lower())
    if hit:
        fail(
            file,
            path,
            f"{what} {name!r} contains the config word {hit[0]!r}",
            checked=[f"`pytest -k {hit[0]}` would pick every cell of it"],
            fix=f"rename it so that it does not contain: {', '.join(hit)}",
        )
