"""Plain data to typed structs; an error names file, key path and the allowed values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec

from pytest_ngram.errors import MatrixError

T = TypeVar("T", bound=msgspec.Struct)


def fail(file: str, path: str, problem: str, *, checked: Iterable[str] = (), fix: str) -> NoReturn:
    """Raise a `MatrixError` about one key path of one file."""
    raise MatrixError(f"{file}: {path or '(top level)'}: {problem}", checked=list(checked), fix=fix)


def unknown(file: str, path: str, what: str, given: object, allowed: Iterable[str]) -> NoReturn:
    """Raise a `MatrixError` about a key or reference that does not exist, with the nearest that does."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(given), names, n=1)
    fix = f"did you mean {near[0]!r}?" if near else "use one of the allowed values"
    fail(
        file, path, f"unknown {what} {given!r}", checked=[f"allowed: {', '.join(names) or '(none)'}"], fix=fix
    )


def mapping(file: str, path: str, value: object, example: str = "name: value") -> dict[str, Any]:
    """Return `value` as a mapping with text keys, or fail; `example` shows how one is written here."""
    if not isinstance(value, Mapping):
        fail(file, path, f"expected a mapping, found {_kind(value)}", fix=f"write it as `{{{example}}}`")
    for key in value:
        if not isinstance(key, str):
            fail(file, path, f"key {key!r} is {_kind(key)}, not text", fix="put the key in quotes")
    return dict(value)


def struct(file: str, path: str, value: object, kind: type[T]) -> T:
    """Convert a mapping into `kind`, strictly.

    Raises:
        MatrixError: an unknown key, a missing key, or a value of another type.
    """
    data = mapping(file, path, value)
    fields = _check_keys(file, path, data, kind)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        inner, problem = _split(str(error))
        fail(
            file,
            f"{path}{inner}".lstrip("."),
            problem,
            checked=[f"keys here: {', '.join(fields)}"],
            fix="give the key the type that is expected; text with a special meaning in YAML needs quotes",
        )


def _check_keys(file: str, path: str, data: dict[str, Any], kind: type[msgspec.Struct]) -> list[str]:
    """Fail at the first key or choice that `kind`, or a struct inside it, does not have; return its keys."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in data.items():
        here = f"{path}.{key}" if path else key
        if key not in fields:
            unknown(file, here, "key", key, fields)
        if (
            get_origin(fields[key]) is Literal
            and isinstance(value, str)
            and value not in get_args(fields[key])
        ):
            unknown(file, here, "value", value, get_args(fields[key]))
        inner = _structs_in(fields[key])
        many = isinstance(value, list) if len(inner) > 1 else True in inner
        if many in inner:
            _check_inner(file, here, value, inner[many], many=many)
    return list(fields)


def _structs_in(kind: Any) -> dict[bool, type[msgspec.Struct]]:
    """The struct that a field holds: by False one alone, by True a list of them; a field may take either."""
    options = (kind, *get_args(kind)) if get_origin(kind) is not tuple else (kind,)
    found: dict[bool, type[msgspec.Struct]] = {}
    for option in options:
        many = get_origin(option) is tuple
        for inner in get_args(option) if many else (option,):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                found[many] = inner
    return found


def _check_inner(file: str, path: str, value: object, kind: type[msgspec.Struct], *, many: bool) -> None:
    """Check a struct inside a struct, or each of a list of them; null is left to the conversion."""
    if many and isinstance(value, list):
        for i, entry in enumerate(value):
            _check_keys(file, f"{path}[{i}]", mapping(file, f"{path}[{i}]", entry, _example(kind)), kind)
    elif not many and value is not None:
        _check_keys(file, path, mapping(file, path, value, _example(kind)), kind)


def _example(kind: type[msgspec.Struct]) -> str:
    return f"{msgspec.structs.fields(kind)[0].encode_name}: …"


def _split(message: str) -> tuple[str, str]:
    """msgspec ends its messages with the path: "Expected `int`, got `str` - at `$.a[0]`"."""
    problem, found, place = message.rpartition(" - at `$")
    return (place.rstrip("`"), problem) if found else ("", message)


def _kind(value: object) -> str:
    names = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true/false",
        int: "a number",
        float: "a number",
    }
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
