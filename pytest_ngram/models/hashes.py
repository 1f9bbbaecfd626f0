"""Hashes of model files, plain: whoever wants them kept keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file's bytes. Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Sharded(Protocol):
    """What is needed of a model (`pytest_ngram.models.gguf_file.ModelFacts` has it)."""

    @property
    def shards(self) -> Sequence[Path]:
        """All its files, in order."""
        ...


def model_sha256(model: Sharded, hash_file: Callable[[Path], str] = file_sha256) -> str:
    """Return the hex sha256 of a model: the file's own, or that of a split model, every shard in it.

    Of a split model it is the hash of the shards' hashes, in order, each with a line end: what
    `sha256sum model-*-of-*.gguf | cut -c-64 | sha256sum` prints. So a hash that is kept for each file serves.

    Args:
        model: the facts of the model.
        hash_file: gives the hash of one file, such as one that keeps them.

    Raises:
        OSError: a file cannot be read.
    """
    hashes = [hash_file(shard) for shard in model.shards]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(f"{each}\n" for each in hashes).encode()).hexdigest()
