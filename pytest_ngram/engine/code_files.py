"""Which files hold the code of a server, and one hash over them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from pytest_ngram.engine import identity

_LLAMA_LIBRARY = re.compile(r"lib(llama|ggml|mtmd)[\w.+-]*\.so[.\d]*")
_LIBRARY = re.compile(r"[\w.+-]+\.so[.\d]*")


def of_process(pid: int, program: Path) -> tuple[Path, ...]:
    """Return the files of llama.cpp's code that a running server has mapped, sorted, `program` among them.

    That is its executable, every library from its executable's folder, and llama.cpp's libraries from
    anywhere, those included that it opened by itself (`libggml-cpu-haswell.so`). Where /proc cannot be read:
    `beside(program)`.
    """
    try:
        executable = Path(os.readlink(f"/proc/{pid}/exe"))
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return beside(program)
    found = {program.resolve(), executable}
    for line in lines:
        fields = line.split(maxsplit=5)
        path = Path(fields[5]) if len(fields) == 6 and fields[5].startswith("/") else None
        if path is not None and _is_code(path, executable.parent) and path.is_file():
            found.add(path)
    return tuple(sorted(found))


def beside(program: Path) -> tuple[Path, ...]:
    """Return the program and every library in its folder, links resolved, sorted."""
    program = program.resolve()
    libraries = {path.resolve() for path in program.parent.glob("*.so*") if _LIBRARY.fullmatch(path.name)}
    return tuple(sorted({program, *(path for path in libraries if path.is_file())}))


def sha256(paths: Iterable[Path], cache_dir: Path | None) -> str:
    """Return one hash over the files: that of the file itself where there is one, else over names and hashes.

    Raises:
        OSError: a file cannot be read.
    """
    hashes = sorted((path.name, identity.file_sha256(path, cache_dir)) for path in paths)
    if len(hashes) == 1:
        return hashes[0][1]
    text = "".join(f"{digest}  {name}\n" for name, digest in hashes)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_code(path: Path, folder: Path) -> bool:
    in_folder = path.parent == folder and _LIBRARY.fullmatch(path.name) is not None
    return in_folder or _LLAMA_LIBRARY.fullmatch(path.name) is not None
