"""Pulls a corpus export: what is at the server becomes a file here, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_ngram.corpus import export_body, export_logs
from pytest_ngram.corpus.export_client import ChangedError, ExportClient, Manifest
from pytest_ngram.corpus.export_limits import Limits, base_url
from pytest_ngram.corpus.report import Skipped
from pytest_ngram.corpus.rows import TOO_LONG
from pytest_ngram.corpus.secret_file import read_identities, read_token
from pytest_ngram.corpus.state import SECRET_MODE, PullState, held, write_state
from pytest_ngram.errors import CorpusError
from pytest_ngram.files import locked, remove_leftovers, replacing
from pytest_ngram.models.hashes import file_sha256

SUFFIX = ".gz"
_LOCK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to pull.

    Args:
        url: what stands before `/export/v1`.
        output: the file to write, gzip as it comes; its name ends in `.gz`.
        token_file: the bearer token, mode 0600.
        identity_file: age identities, mode 0600.
        limits: what it may take.
        allow_http: whether the token may travel in the clear to another machine.
    """

    url: str
    output: Path
    token_file: Path
    identity_file: Path
    limits: Limits
    allow_http: bool = False


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came of it. `updated` is False where the file was what the server has."""

    updated: bool
    state: PullState


def pull(wanted: Wanted, tell: Callable[[str], None]) -> Pulled:
    """Bring a file up to what the export has.

    Args:
        wanted: what, from where, to where.
        tell: told a line about what is tried again or found changed.

    Raises:
        CorpusError: with the reason; the file and its state are then as they were.
    """
    base = base_url(wanted.url, allow_http=wanted.allow_http)
    token = read_token(wanted.token_file)
    identities = read_identities(wanted.identity_file)
    _check_output(wanted.output)
    with (
        _of_this_disk(wanted.output),
        _alone(wanted.output),
        export_logs.without(token),
        ExportClient(base, token, wanted.limits, tell) as client,
    ):
        return _Pull(wanted, str(base), identities, client, tell).run()


class _Pull:
    """One pull, with all that it needs at hand. Raises CorpusError and OSError."""

    def __init__(
        self,
        wanted: Wanted,
        base: str,
        identities: list[Any],
        client: ExportClient,
        tell: Callable[[str], None],
    ) -> None:
        self._wanted = wanted
        self._base = base
        self._identities = identities
        self._client = client
        self._tell = tell
        self._held, reason = held(wanted.output, base)
        if reason:
            tell(f"all of it is asked for: {reason}")

    def run(self) -> Pulled:
        """Pull; from the manifest once more, if the content changed between the two requests."""
        try:
            return self._once()
        except ChangedError as error:
            self._tell(f"{error.cause} ({error.checked[0]}); asking for the manifest again")
        try:
            return self._once()
        except ChangedError as error:
            raise CorpusError(
                f"{error.cause}, twice", checked=[*error.checked, "asked for both twice"], fix=error.fix
            ) from None

    def _once(self) -> Pulled:
        manifest = self._client.manifest()
        if self._held is not None and self._held.content_id == manifest.content_id:
            return Pulled(updated=False, state=self._held)
        etag = None if self._held is None else self._held.etag
        # Without a name: nothing of it stays, however this ends.
        with tempfile.TemporaryFile(dir=self._wanted.output.parent) as encrypted:
            told = self._client.messages(manifest, etag, encrypted)
            if told is None and self._held is not None:  # 304, which only an ETag of ours brings
                return Pulled(updated=False, state=self._held)
            encrypted.seek(0)
            return self._keep(manifest, told or None, encrypted)

    def _keep(self, manifest: Manifest, etag: str | None, encrypted: Any) -> Pulled:
        output = self._wanted.output
        with replacing(output, mode=SECRET_MODE) as new:
            export_body.decrypt(encrypted, new, self._identities)
            checked = export_body.check_rows(new, manifest.rows, self._wanted.limits.max_bytes)
            state = PullState(
                base=self._base,
                content_id=manifest.content_id,
                etag=etag,
                rows=checked.rows,
                bytes=manifest.bytes,
                sha256=manifest.sha256.lower(),
                file_bytes=new.stat().st_size,
                file_sha256=file_sha256(new),
                pulled_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        # The file first: where this ends between the two, its hash does not fit and all is pulled again.
        write_state(output, state)
        if checked.too_long is not None:
            self._tell(_said(checked.too_long))
        return Pulled(updated=True, state=state)


def _said(too_long: Skipped) -> str:
    first = ", ".join(map(str, too_long.first_lines))
    return (
        f"{TOO_LONG}: {too_long.count}, first in line {first}: kept as they came; no table is made of such "
        "rows, and `table build` takes the others with --on-bad-line count"
    )


def _check_output(output: Path) -> None:
    if output.suffix != SUFFIX:
        raise CorpusError(
            f"the name {output.name} does not end in {SUFFIX}",
            checked=["the corpus is kept as gzip, as it comes; tables are built from it as it is"],
            fix=f"name it {output.name}{SUFFIX}",
        )
    try:
        mode = output.lstat().st_mode
    except OSError:
        return  # not there, or told when it is written
    if not stat.S_ISREG(mode):
        raise CorpusError(
            f"{output.name} is there, and no regular file",
            checked=[str(output)],
            fix=f"name {output.resolve()} itself" if stat.S_ISLNK(mode) else "choose another name",
        )


@contextlib.contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Hold the lock of this file, and remove what a killed pull left."""
    lock = output.with_name(f"{output.name}.lock")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(lock, _LOCK_TIMEOUT_S))
        except TimeoutError:
            raise CorpusError(
                f"another pull of {output.name} is at work",
                checked=[f"it has held {lock} for {_LOCK_TIMEOUT_S:g} s"],
                fix="wait for it to end",
            ) from None
        remove_leftovers(output.parent, output.name)
        yield


@contextlib.contextmanager
def _of_this_disk(output: Path) -> Iterator[None]:
    """Tell failures of the disk and the folder as errors of the corpus."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"{output.name} cannot be written",
            checked=[f"{error.filename or output.parent}: {error.strerror or error}"],
            fix=_disk_fix(error.errno),
        ) from error


def _disk_fix(number: int | None) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "make room: a pull needs twice the export beside the file that is there"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "name a file in a folder that you may write into"
    if number in (errno.ENOENT, errno.ENOTDIR):
        return "make the folder first"
    return "see whether the disk is well"
