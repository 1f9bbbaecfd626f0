"""What `pytest bench` would measure here, asked of pytest itself: its root, ini files, options, matrix."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ngram.errors import NgramError, OptionError
from pytest_ngram.options import MATRIX, User, cache_folder, matrix_of, read
from pytest_ngram.options.which_matrix import base
from pytest_ngram.shipped import shipped

_FILE = "file://"
# of what pytest says: a wrong option, or the end of the traceback of a conftest
_TELLING = re.compile(r"\berror: |^E  ")


@dataclass(frozen=True)
class Asked:
    """What the command line said; what is None is as pytest would have it.

    Args:
        folder: of the cells.
        model: a GGUF file to look at instead of a matrix.
        models: ids of the matrix, with commas.
        told: flags that a server at a URL was started with.
        root: the folder below which `/proc` and `/sys` are read.
    """

    folder: Path | None = None
    matrix: Path | None = None
    model: Path | None = None
    profile: str | None = None
    models: str | None = None
    llama_server: str | None = None
    told: str | None = None
    cache: Path | None = None
    root: Path = Path("/")

    def options(self) -> list[str]:
        """Return the options of pytest that say the same."""
        said = {
            "--ngram-matrix": self.matrix,
            "--ngram-profile": self.profile,
            "--ngram-models": self.models,
            "--llama-server": self.llama_server,
            "--llama-server-flags": self.told,
            "--ngram-cache-dir": self.cache,
        }
        given = [f"{name}={value}" for name, value in said.items() if value is not None]
        return [*([str(self.folder)] if self.folder is not None else []), *given]


@dataclass(frozen=True)
class Project:
    """What a run here would be of.

    Args:
        matrix: its file.
        own: whether that is the project's own, not the one that comes with the plugin.
        results: the folder of journals and logs.
        saved: the folder of pytest-benchmark's saved runs; None where they are kept elsewhere than in files.
    """

    matrix: Path
    own: bool
    profile: str
    models: tuple[str, ...]
    llama_server: str | None
    told: tuple[str, ...]
    cache: Path
    results: Path
    saved: Path | None


class _Look:
    """A plugin that takes the place of the run, once pytest knows its options and before it collects."""

    def __init__(self, asked: Asked) -> None:
        self.found: Project | None = None
        self.error: NgramError | None = None
        self._asked = asked

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Note what is wanted, and end."""
        try:
            self.found = _of(config, self._asked)
        except NgramError as error:
            self.error = error
        except ValueError as error:  # pytest's, for an option that nobody declared
            self.error = OptionError(
                "pytest does not load pytest-ngram here",
                checked=[str(error)],
                fix="take `-p no:…` out of addopts, and unset PYTEST_DISABLE_PLUGIN_AUTOLOAD",
            )
        return 0


def find(asked: Asked) -> Project:
    """Ask pytest. It loads the project's conftest files, collects nothing and runs nothing.

    Raises:
        OptionError: pytest cannot start here, does not load this plugin, or refuses an option.
    """
    if asked.folder is not None and not asked.folder.exists():
        raise OptionError(
            "there is no such folder of cells", checked=[str(asked.folder)], fix="correct its path"
        )
    look = _Look(asked)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(asked.options(), plugins=[look])
    if look.error is not None:
        raise look.error
    if look.found is None:
        lines = [line.strip() for line in said.getvalue().splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.search(line)] or lines[-1:]
        raise OptionError(
            f"pytest cannot start here (exit code {int(code)})"
            + "".join(f": {line}" for line in telling[:1]),
            fix="run `pytest bench --collect-only` and mend what it says",
        )
    return look.found


def without_pytest(asked: Asked) -> Project:
    """Return what can be told where pytest cannot start: the command line, then this package's defaults."""
    here = asked.folder or Path.cwd()
    return Project(
        matrix=asked.matrix or shipped("matrix.yaml"),
        own=asked.matrix is not None,
        profile=asked.profile or "smoke",
        models=tuple(filter(None, (asked.models or "").split(","))),
        llama_server=asked.llama_server,
        told=(),
        cache=cache_folder(str(asked.cache) if asked.cache is not None else None),
        results=here / ".ngram",
        saved=here / ".benchmarks",
    )


def _of(config: pytest.Config, asked: Asked) -> Project:
    settings = read(config, _users(config, asked.folder))
    storage = str(config.getoption("benchmark_storage", f"{_FILE}./.benchmarks"))
    is_file = storage.startswith(_FILE) or "://" not in storage
    here = config.invocation_params.dir
    return Project(
        matrix=settings.matrix,
        own=settings.matrix != shipped("matrix.yaml"),
        profile=settings.profile,
        models=settings.models,
        llama_server=settings.llama_server,
        told=settings.llama_server_flags,
        cache=settings.cache,
        results=settings.logs.parent,
        saved=here / storage.removeprefix(_FILE) if is_file else None,
    )


def _users(config: pytest.Config, folder: Path | None) -> list[User]:
    """Return the test file whose matrix is meant: of the folder that was named, else where cells would lie.

    Raises:
        OptionError: the folder that was named has no matrix.
    """
    root, here = base(config)[0], config.invocation_params.dir
    if folder is not None:
        user = User((here / folder).absolute() / "test_cells.py", cells=True)
        matrix_of(config, [user])
        return [user]
    for place in (root / Path(MATRIX).parent, here):
        user = User(place / "test_cells.py", cells=True)
        with contextlib.suppress(OptionError):
            matrix_of(config, [user])
            return [user]
    return []
