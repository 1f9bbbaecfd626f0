"""Names that an ELF file defines: what a loader, a debugger or a probe can attach to."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SYMTAB, _DYNSYM = 2, 11
_SYMBOL = struct.Struct("<IBBHQQ")
_UNDEFINED = 0


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def defined(path: Path) -> frozenset[str]:
    """Return the symbols that a 64-bit little-endian ELF file defines; empty for any other file.

    Both tables are read: the dynamic one, and the static one that a stripped file lacks.
    """
    with path.open("rb") as file:
        if file.read(6) != b"\x7fELF\x02\x01":
            return frozenset()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return frozenset(_names(content))


def _names(content: mmap.mmap) -> Iterator[str]:
    sections = _sections(content)
    for section in sections:
        if section.kind not in (_SYMTAB, _DYNSYM):
            continue
        texts = sections[section.link].offset
        for name, _, _, index, _, _ in _SYMBOL.iter_unpack(
            content[section.offset : section.offset + section.size]
        ):
            if index != _UNDEFINED and name:
                start = texts + name
                yield content[start : content.find(b"\0", start)].decode("utf-8", "replace")


def _sections(content: mmap.mmap) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    found = []
    for i in range(count):
        at = table + i * size
        (kind,) = struct.unpack_from("<I", content, at + 4)
        offset, length, link = struct.unpack_from("<QQI", content, at + 0x18)
        found.append(_Section(kind, offset, length, link))
    return found
