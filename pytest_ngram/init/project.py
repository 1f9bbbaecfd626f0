"""What is known of the repository: where it configures pytest, and its llama.cpp submodule."""

from __future__ import annotations

import configparser
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.errors import OptionError

# In the order in which pytest looks, with the section that makes the file its configuration.
_CONFIGS = (
    ("pytest.toml", "pytest"),
    (".pytest.toml", "pytest"),
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", "tool.pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
_TESTS = ("tests", "test")


@dataclass(frozen=True)
class PytestConfig:
    """Where a repository configures pytest.

    Args:
        file: its name in the repository's root.
        section: as it is written there.
        testpaths: whether `pytest` without arguments is told where to look.
    """

    file: str
    section: str
    testpaths: bool

    def line(self, key: str, value: str) -> str:
        """Return a setting as it is written in this file."""
        return f'{key} = "{value}"' if self.file.endswith(".toml") else f"{key} = {value}"


@dataclass(frozen=True)
class Repository:
    """A folder to write into; it need not exist.

    Args:
        folder: its root.
        config: where it configures pytest, None where it does not.
        tests: the folder of its own tests, None where it has none.
        submodule: path of the llama.cpp submodule below the root, None where there is none.
    """

    folder: Path
    config: PytestConfig | None
    tests: str | None
    submodule: str | None


def look(folder: Path) -> Repository:
    """Look at a repository.

    Raises:
        OptionError: the folder is a file, or a configuration in it cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(
            "the place to write to is a file", checked=[str(folder)], fix="name the repository's folder"
        )
    tests = next((name for name in _TESTS if (folder / name).is_dir()), None)
    return Repository(folder, _pytest_config(folder), tests, _submodule(folder))


def _pytest_config(folder: Path) -> PytestConfig | None:
    for name, section in _CONFIGS:
        path = folder / name
        if not path.is_file():
            continue
        found = _toml(path) if path.suffix == ".toml" else _ini(path, section)
        if found is not None or path.stem in ("pytest", ".pytest"):
            written, keys = found or (section, set())
            return PytestConfig(name, f"[{written}]", "testpaths" in keys)
    return None


def _toml(path: Path) -> tuple[str, set[str]] | None:
    """Return the section and its keys; of two the newer one, which pytest prefers too."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if path.name != "pyproject.toml":
        return "pytest", set(data.get("pytest", {}))
    table = data.get("tool", {}).get("pytest")
    if table is None:
        return None
    old = table.get("ini_options")
    return ("tool.pytest", set(table)) if old is None else ("tool.pytest.ini_options", set(old))


def _ini(path: Path, section: str) -> tuple[str, set[str]] | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error) as error:
        raise _unreadable(path, error) from error
    return (section, set(parser[section])) if section in parser else None


def _submodule(folder: Path) -> str | None:
    """Return the submodule whose path or URL speaks of llama.cpp."""
    path = folder / ".gitmodules"
    if not path.is_file():
        return None
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        # git indents the keys, which this parser would take for the value's next line
        parser.read_string(re.sub(r"(?m)^[ \t]+", "", path.read_text(encoding="utf-8")))
    except (OSError, ValueError, configparser.Error) as error:
        raise _unreadable(path, error) from error
    for section in parser.values():
        where = section.get("path", "")
        if where and "llama.cpp" in f"{where} {section.get('url', '')}":
            return where
    return None


def _unreadable(path: Path, error: Exception) -> OptionError:
    return OptionError(
        f"{path.name} of the repository cannot be read",
        checked=[f"{path}: {error}"],
        fix="mend it first: pytest or git would stumble over it too",
    )
