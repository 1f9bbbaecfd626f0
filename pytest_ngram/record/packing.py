"""Token ids as text: base64 of zlib of little-endian int32, so that one JSON file travels and replays."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Sequence

from pytest_ngram.errors import RecordError


def pack_tokens(ids: Sequence[int]) -> str:
    """Pack token ids.

    Args:
        ids: n ids, each within int32.

    Returns:
        base64 text; `pack_tokens([])` is the packing of zero bytes, not an empty string.
    """
    raw = struct.pack(f"<{len(ids)}i", *ids)
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def unpack_tokens(packed: str) -> list[int]:
    """Undo `pack_tokens`.

    Raises:
        RecordError: the text is not base64, not zlib, or not whole int32 words.
    """
    try:
        raw = zlib.decompress(base64.b64decode(packed, validate=True))
        return list(struct.unpack(f"<{len(raw) // 4}i", raw))
    except (binascii.Error, ValueError, zlib.error, struct.error) as error:
        raise RecordError(
            "packed token ids cannot be read",
            checked=[f"{len(packed)} characters: {error}"],
            fix="the file was edited or cut; take it again from where it was saved",
        ) from error
