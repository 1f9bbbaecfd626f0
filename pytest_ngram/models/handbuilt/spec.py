"""What a hand-built model is asked to be."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_ngram.errors import ModelError

MAX_LAYERS = 64
MAX_WIDTH = 65536
MAX_SIGMA = 4.0
LOWEST_TARGET, HIGHEST_TARGET = 0.05, 1.0


@dataclass(frozen=True)
class HandBuiltSpec:
    """Parameters of one hand-built qwen35moe model with a MTP block.

    Args:
        target: wanted MTP acceptance at the first draft position, mean over the four word classes, 0.05 to 1.
        sigma: noise on the MTP block's experts, instead of `target`; 0 drafts always right.
        seed: of the map, the phasors and every random weight.
        layers: trunk layers, a multiple of 4 (three recurrent layers, then one of attention, and so on).
        width: hidden size of the shared expert in every layer; it changes the arithmetic, not the output.
        n_ctx_train: context length that the file states, in tokens.

    Raises:
        ModelError: a value is out of range, or not exactly one of `target` and `sigma` is given.
    """

    target: float | None = 0.7
    sigma: float | None = None
    seed: int = 1
    layers: int = 4
    width: int = 32
    n_ctx_train: int = 32768

    def __post_init__(self) -> None:
        _require(
            (self.target is None) != (self.sigma is None),
            f"target={self.target}, sigma={self.sigma}",
            "give either target or sigma, and set the other to null",
        )
        if self.target is not None:
            _require_between("target", self.target, LOWEST_TARGET, HIGHEST_TARGET)
        if self.sigma is not None:
            _require_between("sigma", self.sigma, 0.0, MAX_SIGMA)
        _require_between("seed", self.seed, 0, 2**32 - 1)
        _require_between("layers", self.layers, 4, MAX_LAYERS)
        _require(self.layers % 4 == 0, f"layers={self.layers}", "take a multiple of 4, such as 4 or 16")
        _require_between("width", self.width, 1, MAX_WIDTH)
        _require_between("n_ctx_train", self.n_ctx_train, 256, 2**20)

    def content_key(self) -> str:
        """Return 16 hex digits that name the file of this spec, written by this version of the generator."""
        described = {"generator": generator_id(), **asdict(self)}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def generator_id() -> str:
    """Return 16 hex digits of this package's own source.

    They are part of every content key: with another source the same spec may give other bytes, and a model
    from before would be judged by a rule that it does not follow.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _require_between(name: str, value: float, low: float, high: float) -> None:
    # written so that NaN fails too
    _require(low <= value <= high, f"{name}={value}", f"take a {name} from {low} to {high}")


def _require(condition: bool, checked: str, fix: str) -> None:
    if not condition:
        raise ModelError("the hand-built model cannot be made as asked", checked=[checked], fix=fix)
