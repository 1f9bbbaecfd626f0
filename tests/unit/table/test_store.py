"""The cache of tables: nothing is ever half there, and one process builds for all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import pytest_ngram
from pytest_ngram.errors import TableError
from pytest_ngram.table import Ids
from pytest_ngram.table.build import BuiltTable, manifest_path
from pytest_ngram.table.build.files import write_table

Build = Callable[..., BuiltTable]
InCache = Callable[[], set[str]]
WriteCorpus = Callable[[str, list[str]], Path]


def fail_on_call(monkeypatch: pytest.MonkeyPatch, name: str, nth: int, code: int) -> None:
    """Let the nth call of os.<name> fail, and those before it work."""
    real, calls = getattr(os, name), [0]

    def call(*args: object) -> object:
        calls[0] += 1
        if calls[0] == nth:
            raise OSError(code, os.strerror(code))
        return real(*args)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("had_one", [False, True])
@pytest.mark.parametrize(
    "failing",
    [*(("fsync", nth) for nth in range(1, 7)), ("replace", 1), ("replace", 2)],
    ids=str,
)
def test_a_full_disk_leaves_nothing_half_written(
    build: Build, in_cache: InCache, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, int], had_one: bool
) -> None:
    """Whichever write, sync or rename fails, the error is clear, no part stays, and the next build works."""
    if had_one:
        build().path.write_bytes(b"spoilt")
    with monkeypatch.context() as patch:
        fail_on_call(patch, *failing, errno.ENOSPC)
        with pytest.raises(TableError, match="disk is full") as caught:
            build()
    assert "bytes free" in caught.value.checked[-1]
    assert in_cache() == set()
    assert build().how == "built"


def second_replace(does: Callable[[], None]) -> Callable[..., None]:
    """`os.replace` that does something between the first file that takes its name and the second."""
    real, calls = os.replace, [0]

    def replace(*args: object) -> None:
        calls[0] += 1
        if calls[0] == 2:
            does()
        real(*args)  # type: ignore[arg-type]

    return replace


def test_a_write_that_fails_between_the_two_leaves_nothing(
    build: Build, in_cache: InCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the second of the two cannot take its name, neither is left: they would not fit."""

    def fail() -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", second_replace(fail))
        with pytest.raises(TableError, match="folder for tables cannot be used"):
            build()
    assert in_cache() == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_between_the_two_leaves_a_whole_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A signal while a table and its manifest take the places of older ones waits until both have."""
    path, beside = tmp_path / "t.lcs", tmp_path / "t.json"
    write_table(path, b"old table", beside, b"old manifest")

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(number, stop)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", second_replace(lambda: signal.raise_signal(number)))
            with pytest.raises(KeyboardInterrupt, match=f"{number:d}"):
                write_table(path, b"new table", beside, b"new manifest")
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)
    assert (path.read_bytes(), beside.read_bytes()) == (b"new table", b"new manifest")
    assert {each.name for each in tmp_path.iterdir()} == {"t.lcs", "t.json"}


def test_what_a_killed_process_left_is_removed(build: Build, cache: Path) -> None:
    """Temporary files of this table go; those of another table, which may be at work, stay."""
    built = build()
    stale, other = cache / f"{built.path.name}.x1y2.tmp", cache / "other.lcs.x1y2.tmp"
    stale.touch()
    other.touch()
    manifest_path(built.path).unlink()
    assert build().how == "built"
    assert (stale.exists(), other.exists()) == (False, True)


def test_a_folder_that_cannot_be_used_is_named(build: Build, tmp_path: Path) -> None:
    """A file in the place of the cache folder is an error that names it."""
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match="folder for tables cannot be used") as caught:
        build(cache_dir=tmp_path / "file" / "cache")
    assert str(tmp_path / "file") in caught.value.checked[0]


def test_a_tokenizers_own_error_passes_as_it_is(build: Build, in_cache: InCache) -> None:
    """A lost connection is not mistaken for a disk error, and leaves nothing."""

    def lost(_texts: Sequence[str]) -> list[Ids]:
        raise ConnectionResetError("server gone")

    with pytest.raises(ConnectionResetError, match="server gone"):
        build(tokenize=lost)
    assert in_cache() == set()


SCRIPT = """
import os, resource, sys, time
from pathlib import Path
import numpy as np
from pytest_ngram.errors import TableError
from pytest_ngram.table.build import Tokenizer, Wanted, build_table

corpus, cache, log, limit = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))

def tokenize(texts):
    with open(log, "a") as file:
        file.writelines(text + "\\n" for text in texts)
    time.sleep(0.5)
    return [np.array(list(text.encode()), np.int32) for text in texts]

try:
    built = build_table(
        Wanted((Path(corpus),)), Tokenizer(tokenize, "v", 256), cache_dir=Path(cache)
    )
except TableError as error:
    print(error)
else:
    print(built.how)
"""


def start(corpus: Path, limit_bytes: int = 0) -> subprocess.Popen[str]:
    tmp_path = corpus.parent
    (tmp_path / "build.py").write_text(textwrap.dedent(SCRIPT))
    paths = [str(Path(pytest_ngram.__file__).parent.parent), *sys.path]
    return subprocess.Popen(
        [
            sys.executable,
            str(tmp_path / "build.py"),
            str(corpus),
            str(tmp_path / "deep" / "cache"),
            str(tmp_path / "log"),
            str(limit_bytes),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_two_processes_one_builds(tmp_path: Path, write_corpus: WriteCorpus, texts: list[str]) -> None:
    """The other waits and reuses: each message is tokenized once."""
    corpus = write_corpus("chat.jsonl", texts)
    both = [start(corpus), start(corpus)]
    said = [process.communicate(timeout=30)[0].strip() for process in both]
    assert sorted(said) == ["built", "reused"]
    assert (tmp_path / "log").read_text().splitlines() == texts


def test_a_killed_builder_frees_the_lock(tmp_path: Path, write_corpus: WriteCorpus, texts: list[str]) -> None:
    """The lock ends with its process, and the next one builds."""
    corpus = write_corpus("chat.jsonl", texts)
    first = start(corpus)
    while not (tmp_path / "log").exists():
        assert first.poll() is None
    first.kill()
    first.communicate(timeout=30)
    second = start(corpus)
    assert second.communicate(timeout=30)[0].strip() == "built"


def test_a_write_that_the_kernel_cuts_short_leaves_nothing(
    write_corpus: WriteCorpus, texts: list[str], in_cache: InCache
) -> None:
    """A real failing write, by a limit on the size of files, is a clear error without leftovers."""
    corpus = write_corpus("chat.jsonl", texts)
    process = start(corpus, limit_bytes=40)
    assert "larger than a file may be" in process.communicate(timeout=30)[0]
    assert in_cache() == set()


def test_a_lock_held_for_too_long_is_an_error(build: Build) -> None:
    """A wait has an end, and the error names the lock."""
    errors: list[TableError] = []

    def meanwhile(texts: Sequence[str]) -> list[Ids]:
        if not errors:
            with pytest.raises(TableError, match="too long") as caught:
                build(lock_timeout_s=0.0)
            errors.append(caught.value)
        return [np.array(list(text.encode()), np.int32) for text in texts]

    assert build(tokenize=meanwhile).how == "built"
    assert ".lock" in errors[0].checked[0]
