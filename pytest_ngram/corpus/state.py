"""What a pull leaves beside the corpus: `FILE.state.json`, which says what FILE is. It holds no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from pytest_ngram.files import replacing
from pytest_ngram.models.hashes import file_sha256

SECRET_MODE = 0o600


class PullState(msgspec.Struct, frozen=True, kw_only=True):
    """What was pulled last.

    Args:
        base: the export's address.
        content_id: the server's name for this content.
        etag: what it told with the body; null where it told none.
        rows: messages, as counted here.
        bytes: of the encrypted body.
        sha256: of the encrypted body.
        file_bytes: of the file beside this one.
        file_sha256: of the file beside this one.
        pulled_at: UTC, ISO 8601.
    """

    schema: Literal[1] = 1
    base: str
    content_id: str
    etag: str | None
    rows: int
    bytes: int
    sha256: str
    file_bytes: int
    file_sha256: str
    pulled_at: str


def state_path(output: Path) -> Path:
    """Return the name of the state of a corpus file."""
    return output.with_name(f"{output.name}.state.json")


def held(output: Path, base: str) -> tuple[PullState | None, str]:
    """Return the state of a file that is whole and of this address, or None with the reason.

    Raises OSError where the file or its state is there and cannot be read.
    """
    try:
        state = msgspec.json.decode(state_path(output).read_bytes(), type=PullState)
    except FileNotFoundError:
        return None, "nothing was pulled here before"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, f"{state_path(output).name} cannot be read as a state of this version"
    if state.base != base:
        return None, "what is here came from another address"
    if not output.exists():
        return None, f"{output.name} is gone"
    if output.stat().st_size != state.file_bytes or file_sha256(output) != state.file_sha256:
        return None, f"{output.name} is not what was pulled: it was changed"
    return state, ""


def write_state(output: Path, state: PullState) -> None:
    """Write the state, whole or not at all. Raises OSError."""
    with replacing(state_path(output), mode=SECRET_MODE) as new:
        new.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
