"""A file that was made once, and the JSON beside it that says which bytes it had."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

_LOG = logging.getLogger(__name__)


def intact_sha256(made: Path, sha256_of: Callable[[Path], str]) -> str | None:
    """Return the hash of a file that is as it was made; None where it has to be made anew, which is logged.

    Args:
        made: the file; `sha256` of the JSON of its name is what it has to have.
        sha256_of: returns the hash of a file.
    """
    sidecar = made.with_suffix(".json")
    if not made.exists() or not sidecar.exists():
        return None
    try:
        expected = json.loads(sidecar.read_text(encoding="utf-8"))["sha256"]
    except (ValueError, KeyError, TypeError):
        _LOG.warning("%s cannot be read; the model beside it is made anew", sidecar)
        return None
    found = sha256_of(made)
    if found != expected:
        _LOG.warning("%s has sha256 %s, not %s as when it was made; making it anew", made, found, expected)
        return None
    return found
