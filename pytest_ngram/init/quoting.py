"""Text that a user named, as YAML and TOML write it."""

from __future__ import annotations

import json
import os
import re

import yaml

from pytest_ngram.errors import OptionError

_PLAIN = re.compile(r"[A-Za-z0-9./][A-Za-z0-9./_+~-]*")
# What JSON writes as it is, and YAML (all of them) or TOML (0x7f) must not hold; all are of four hex digits.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def quoted(text: str) -> str:
    """Return a text in double quotes, with escapes that JSON, YAML and TOML have in common.

    Raises:
        OptionError: it is the name of a file that is not UTF-8, which none of them can hold.
    """
    require_text(text)
    return _UNPRINTABLE.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def yaml_scalar(text: str) -> str:
    """Return a YAML scalar: as it is where YAML reads it as this text, else in double quotes."""
    return text if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text else quoted(text)


def require_text(name: str) -> None:
    """Raise `OptionError` for a file name that is not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            "the name of a file is not UTF-8, and cannot be written into a configuration",
            checked=[repr(os.fsencode(name))[1:]],
            fix="rename the file or its folder, or make a link to it under another name",
        ) from error
