"""The models of a matrix: found, generated where need be, inspected once, hashed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_ngram import record
from pytest_ngram.engine.identity import file_sha256
from pytest_ngram.errors import ModelError
from pytest_ngram.matrix.spec import GenerateSpec, MatrixSpec, SourceSpec
from pytest_ngram.measure import sources
from pytest_ngram.measure.events import SILENT, Listener, Opening, waiting
from pytest_ngram.measure.parts import join
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
        listener: hears of each that is opened.
    """

    def __init__(self, matrix: MatrixSpec, base: Path, cache: Path, listener: Listener = SILENT) -> None:
        self._matrix = matrix
        self._base = base
        self._cache = cache
        self._listener = listener
        self._opened: dict[SourceSpec, Model] = {}

    def open(self, name: str) -> Model:
        """Return a model of the matrix by its id.

        Raises:
            ModelError: missing, damaged, or not to be generated as asked.
        """
        return self._open(source_of(self._matrix.models[name]))

    def open_draft(self, name: str, config: str) -> Model | None:
        """Return the model with which a config drafts on a model; None where it needs no second one.

        Raises:
            ModelError: as `open`; or the config needs one, and the model names none.
        """
        if not self._matrix.configs[config].needs_draft_model:
            return None
        draft = self._matrix.models[name].draft
        if draft is None:
            raise ModelError(
                f"config {config!r} drafts with a second model, and {name!r} names none",
                checked=[f"models.{name}.draft of the matrix"],
                fix="give it `draft:` with a path, package, parts or generate",
            )
        return self._open(draft)

    def peek(self, name: str) -> ModelFacts | None:
        """Return a model's facts; None where its file is not there, or has to be made first."""
        source = source_of(self._matrix.models[name])
        if source in self._opened:
            return self._opened[source].facts
        if source.generate is not None or source.parts:
            return None
        try:
            return inspect(sources.locate(source, self._base))
        except ModelError:
            return None

    def known(self, name: str) -> record.Model | None:
        """Return what is known of a model that was opened before; None where it could not be."""
        opened = self._opened.get(source_of(self._matrix.models[name]))
        return opened.record if opened is not None else None

    def _open(self, source: SourceSpec) -> Model:
        if source not in self._opened:
            with waiting(self._listener, Opening(source.path or source.package or "a model to be made")):
                path = self._path(source)
                facts = inspect(path)
                sha256 = model_sha256(facts, lambda shard: file_sha256(shard, self._cache))
            self._opened[source] = Model(path, facts, record_model(facts, sha256))
        return self._opened[source]

    def _path(self, source: SourceSpec) -> Path:
        if source.generate is not None:
            return generate(handbuilt_spec(source.generate), self._cache / "models")
        if source.parts:
            parts = [sources.locate(part, self._base) for part in source.parts]
            return join(parts, self._cache / "models", source.sha256)
        return sources.locate(source, self._base)


def source_of(model: SourceSpec) -> SourceSpec:
    """Return where a model comes from, and nothing else: two from one place are opened once."""
    return SourceSpec(**{name: getattr(model, name) for name in SourceSpec.__struct_fields__})


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
