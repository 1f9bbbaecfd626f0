"""YAML to plain data, with line numbers in errors and no key silently overwritten."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from pytest_ngram.errors import MatrixError


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice, which YAML libraries let pass."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    written = [key for key, _value in node.value if key.tag != "tag:yaml.org,2002:merge"]
    seen: set[Any] = set()
    for key_node in written:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "a key is a list or mapping", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is written twice", key_node.start_mark
            )
        seen.add(key)
    loader.flatten_mapping(node)  # a key of its own takes the place of a merged one
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load(text: str, file: str) -> Any:
    """Parse YAML.

    Args:
        text: the file's content.
        file: its name, for messages only.

    Raises:
        MatrixError: not YAML, or a key written twice; names line and column.
    """
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader with one check more
        _check_text(data, file)
        return data
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown place"
        twice = "written twice" in str(error.problem)
        raise MatrixError(
            f"{file}: {place}: {error.problem or error.context}",
            checked=[f"the whole file, {text.count(chr(10)) + 1} lines"],
            fix="keep one of the two"
            if twice
            else "correct the line; values that YAML would read otherwise (on, off, a colon) need quotes",
        ) from error
    except yaml.YAMLError as error:
        raise MatrixError(
            f"{file}: not YAML: {error}",
            fix="save it as UTF-8 text without control characters",
        ) from error
    except (ValueError, KeyError, OverflowError, RecursionError) as error:
        raise MatrixError(
            f"{file}: holds a value that cannot be: {str(error)[:200]}",
            checked=["dates, numbers and how deep lists and mappings go"],
            fix="put text that looks like a date or a number into quotes",
        ) from error


def _check_text(data: Any, file: str) -> None:
    """Refuse text that no file name, flag or prompt can hold."""
    if isinstance(data, str):
        if "\0" in data or any("\ud800" <= letter <= "\udfff" for letter in data):
            raise MatrixError(
                f"{file}: holds text with a NUL or half a letter: {data[:40]!r}",
                fix="take it out; write letters beyond 16 bits as themselves, not as two escapes",
            )
    elif isinstance(data, dict):
        for key, value in data.items():
            _check_text(key, file)
            _check_text(value, file)
    elif isinstance(data, (list, tuple, set)):
        for value in data:
            _check_text(value, file)
