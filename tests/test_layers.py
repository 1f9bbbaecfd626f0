"""The rooms stay apart: who may import whom, read from the imports themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_ngram"

# Left to right; a room may import rooms of an earlier row, and itself.
ROWS = [
    ["errors"],
    ["record", "files", "shipped"],
    ["table.format", "table.counts", "table.price", "drafting", "models"],
    ["matrix", "corpus", "judge", "verdict"],
    ["engine"],
    ["measure"],
    ["table.build"],
    ["evidence", "report", "replay"],
    ["options"],
    ["session", "init", "curves", "reports"],
    ["doctor"],
    ["pytest_fixtures", "cli"],
    ["plugin"],
]
PURE = {"errors", "record", "matrix", "drafting", "judge", "verdict"}
PURE |= {"table.format", "table.counts", "table.price"}
PURE_MODULES = {"corpus.leakage", "doctor.line", "doctor.host_lines", "doctor.room_lines", "report.numbers"}
PURE_FOLDERS = ("report.page",)
IMPURE = {"pytest", "_pytest", "subprocess", "httpx", "socket", "psutil", "urllib", "os", "pathlib", "shutil"}
ROW_OF = {room: i for i, row in enumerate(ROWS) for room in row}


def room_of(module: str) -> str | None:
    """`pytest_ngram.table.counts.x` -> `table.counts`; None for the bare package."""
    parts = module.split(".")[1:]
    for n in (2, 1):
        if ".".join(parts[:n]) in ROW_OF:
            return ".".join(parts[:n])
    return None


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            assert node.module is not None
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_module_imports_only_rooms_to_its_left(path: Path) -> None:
    """A module imports its own room and rooms of earlier rows, nothing else of the package."""
    module = module_name(path)
    room = room_of(module)
    if room is None:
        inside = [name for name in imports_of(path) if name.startswith("pytest_ngram.")]
        assert inside == [], f"{module} belongs to no room and so may import none"
        return
    for name in imports_of(path):
        other = room_of(name) if name.startswith("pytest_ngram.") else None
        if other is None or other == room:
            continue
        assert ROW_OF[other] < ROW_OF[room], f"{module} imports {name}, which stands to its right"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_pure_rooms_touch_nothing_outside(path: Path) -> None:
    """Pure rooms import neither pytest nor processes nor the network, and open no files."""
    module = module_name(path)
    inner = module.removeprefix("pytest_ngram.")
    if room_of(module) not in PURE and inner not in PURE_MODULES and not inner.startswith(PURE_FOLDERS):
        return
    outside = {name.split(".")[0] for name in imports_of(path)} & IMPURE
    assert outside == set(), f"{module} is pure and imports {sorted(outside)}"
    calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    opened = [n.lineno for n in calls if isinstance(n.func, ast.Name) and n.func.id == "open"]
    assert opened == [], f"{module} is pure and opens files at lines {opened}"


def test_every_module_has_a_room() -> None:
    """A new module is placed on purpose: every one but the package itself belongs to a room of the table."""
    bare = {m for m in map(module_name, MODULES) if room_of(m) is None}
    assert bare <= {"pytest_ngram", "pytest_ngram.table"}
