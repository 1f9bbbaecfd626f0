"""YAML to plain data, with line numbers in errors and no key silently overwritten."""

from __future__ import annotations

from typing import Any

import yaml

from pytest_ngram.errors import MatrixError


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice, which YAML libraries let pass."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in found:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is written twice", key_node.start_mark
            )
        found[key] = loader.construct_object(value_node, deep=True)
    return found


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
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader with one check more
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
