"""Secrets that lie in files: a bearer token, age identities. Only their owner may be able to read them.

No error shows a word of such a file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from pytest_ngram.errors import CorpusError

_MAX_BYTES = 65_536
_OTHERS = 0o077
_IDENTITY = "AGE-SECRET-KEY-"


def read_token(path: Path) -> str:
    """Return the bearer token: the one line of the file.

    Raises:
        CorpusError: others may read or write the file, it is not the user's own, or it holds no token.
    """
    token = _read(path, "token").strip()
    if not token:
        raise CorpusError("the token file is empty", checked=[str(path)], fix="write the token into it")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise CorpusError(
            "the token cannot be sent",
            checked=[f"{path} holds a space, a second line, or a letter that is not ASCII"],
            fix="the file has to hold one line, with the token alone",
        )
    return token


def read_identities(path: Path) -> list[Any]:
    """Return the age identities (pyrage) of a file as `age-keygen` writes it: one a line, `#` for comments.

    Raises:
        CorpusError: others may read or write the file, it is not the user's own, or a line is no identity.
    """
    import pyrage

    lines = [(n, line.strip()) for n, line in enumerate(_read(path, "identity").splitlines(), start=1)]
    wanted = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not wanted:
        raise CorpusError(
            "the identity file holds no identity", checked=[str(path)], fix="name a file of `age-keygen`"
        )
    identities = []
    for number, line in wanted:
        try:
            identities.append(pyrage.x25519.Identity.from_str(line))
        except pyrage.IdentityError:
            # Not chained: what the library says of a line may quote it.
            raise CorpusError(
                f"line {number} of the identity file is no age identity",
                checked=[f"{path}: a line is a comment or begins with {_IDENTITY}"],
                fix="name a file of `age-keygen`; keys of ssh, plugins and passphrases are not taken",
            ) from None
    return identities


def _read(path: Path, what: str) -> str:
    """Read a small file of the user's own. What is checked is what was opened, also behind a link."""
    try:
        # A pipe would be waited for until somebody writes to it.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CorpusError(
            f"the {what} file cannot be read",
            checked=[f"{path}: {error.strerror}"],
            fix="check the path; it is taken from the working directory",
        ) from None
    try:
        _check(path, what, os.fstat(handle))
        data = os.read(handle, _MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > _MAX_BYTES:
        raise CorpusError(
            f"the {what} file is larger than {_MAX_BYTES} bytes", checked=[str(path)], fix="name another file"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise CorpusError(
            f"the {what} file is no text", checked=[str(path)], fix="name another file"
        ) from None


def _check(path: Path, what: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CorpusError(
            f"the {what} file is no regular file",
            checked=[str(path)],
            fix="name a file that stays: no folder, no pipe",
        )
    if found.st_uid != os.geteuid():
        raise CorpusError(
            f"the {what} file belongs to somebody else",
            checked=[f"{path}: owner {found.st_uid}, and this runs as {os.geteuid()}"],
            fix="make a copy that is your own, with `install -m 600`",
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS:
        behind = f" (a link to {path.resolve()})" if path.is_symlink() else ""
        raise CorpusError(
            f"others may read or change the {what} file",
            checked=[f"{path}{behind}: mode {mode:04o}, and nobody but its owner may have rights"],
            fix=f"`chmod 600 {path}`; if others could have read it for long, have a new one made",
        )
