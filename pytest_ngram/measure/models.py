"""The models of a matrix: found, generated where need be, inspected once, hashed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_ngram import record
from pytest_ngram.engine.identity import file_sha256
from pytest_ngram.matrix.spec import GenerateSpec, MatrixSpec
from pytest_ngram.measure import sources
from pytest_ngram.models.gguf_file import ModelFacts, inspect, record_model
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.models.hashes import model_sha256


@dataclass(frozen=True)
class Model:
    """A model file that was opened and found whole."""

    path: Path
    facts: ModelFacts
    record: record.Model


class Models:
    """Opens the models of a matrix, each once.

    Args:
        matrix: the decoded matrix.
        base: the folder that relative paths start from.
        cache: where generated models and hashes are kept.
    """

    def __init__(self, matrix: MatrixSpec, base: Path, cache: Path) -> None:
        self._matrix = matrix
        self._base = base
        self._cache = cache
        self._opened: dict[str, Model] = {}

    def open(self, name: str) -> Model:
        """Return a model of the matrix by its id.

        Raises:
            ModelError: missing, damaged, or not to be generated as asked.
        """
        if name not in self._opened:
            self._opened[name] = open_model(self._path(name), self._cache)
        return self._opened[name]

    def known(self, name: str) -> record.Model | None:
        """Return what is known of a model that was opened before; None where it could not be."""
        return self._opened[name].record if name in self._opened else None

    def _path(self, name: str) -> Path:
        spec = self._matrix.models[name]
        if spec.generate is None:
            return sources.locate(spec, self._base)
        return generate(handbuilt_spec(spec.generate), self._cache / "models")


def open_model(path: Path, cache: Path) -> Model:
    """Return the model of a file. Raises `ModelError` for one that is missing or damaged."""
    facts = inspect(path)
    sha256 = model_sha256(facts, lambda shard: file_sha256(shard, cache))
    return Model(path, facts, record_model(facts, sha256))


def handbuilt_spec(spec: GenerateSpec) -> HandBuiltSpec:
    """Return the generator's own parameters for a `generate:` entry of the matrix."""
    return HandBuiltSpec(
        target=spec.target, sigma=spec.sigma, seed=spec.seed, layers=spec.layers, width=spec.width
    )
