"""Where the drafters' machine code is kept, so that it is compiled once and not at each start."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"


def keep_kernels(cache_dir: Path) -> Path:
    """Have numba keep machine code in a folder that belongs to these very sources.

    It has to be called before anything of `drafting` is imported. Processes that are started later keep it
    there too.

    Args:
        cache_dir: where the folder is made.

    Returns:
        The folder.
    """
    spec = find_spec("pytest_ngram.drafting")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    digest = hashlib.sha256(_numba_version().encode())
    for source in sorted(path for place in places for path in Path(place).glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = cache_dir / f"kernels-{digest.hexdigest()[:16]}"
    os.environ[_VARIABLE] = str(folder)
    return folder


def _numba_version() -> str:
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""
