"""What this host measured before, kept in the cache by model, engine, processor and flags: a small file each.

It serves estimates only, so whatever is wrong with a file is said, and the file done without.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.engine import api_key, code_files, compare
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.files import locked, write_whole
from pytest_ngram.matrix.spec import BASELINE, ConfigSpec, FileSpec, MatrixSpec, SourceSpec
from pytest_ngram.matrix.timings import Answer, ModelTimings, Timing
from pytest_ngram.measure import sources
from pytest_ngram.measure.host import processor

VERSION = 1
LABEL = "earlier runs on this host"
_LOCK_TIMEOUT_S = 5.0
# an estimate waits for nobody
_URL_PATIENCE_S = 2.0
# What of a model says which cells are run on it, and not how fast they are.
_NOT_SPEED = ("configs", "prompt_sets", "n_predict", "blocks", "abstains")

# Beyond these a figure is a damaged file's: 30 years; more tokens than any run asks for; and what is left of
# a count that faded.
_MOST_S, _MOST_N, _LEAST = 1e9, 1e12, 1e-9
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

Warn = Callable[[str], None]


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file's content. `of` is what its figures are of; its configs go by what they say, not by their id."""

    version: int
    of: dict[str, Any]
    measured: str
    timings: ModelTimings


@dataclass(frozen=True)
class Place:
    """Where the figures of one model are kept, and of what they are."""

    path: Path
    of: dict[str, Any]
    configs: Mapping[str, str]


def place_of(folder: Path, model: str, matrix: MatrixSpec, base: Path, engine: str) -> Place | None:
    """Return where a model's figures are kept; None where its file is not there.

    The file is told by path, size and time of change: nothing is read or generated for it.

    Args:
        folder: of the cache.
        model: its id in the matrix.
        base: the folder from which the matrix's paths start.
        engine: what `engine_key` returned.
    """
    spec = matrix.models[model]
    try:
        stamps = [_stamp(part, base) for part in _files(spec)]
    except (NgramError, OSError):
        return None
    cpu, _cores, isa = processor()
    described = {k: v for k, v in msgspec.to_builtins(spec).items() if k not in _NOT_SPEED}
    of = {"model": described, "files": stamps, "engine": engine, "cpu": cpu, "isa": list(isa or ())}
    digest = hashlib.sha256(msgspec.json.encode(of, order="sorted")).hexdigest()[:32]
    configs = {name: _config_key(config) for name, config in matrix.configs.items()}
    return Place(folder / "timings" / f"{digest}.json", of, configs)


def engine_key(factory: Factory, cache: Path) -> str:
    """Return which engine it is, before it is started. Raises `EngineError` for one that cannot be asked."""
    choice = factory.choice
    if choice.url is not None:
        told = compare.setting(factory.told)
        return " ".join([choice.url, _build_at(choice.url), *(told[key] for key in sorted(told))])
    if choice.path is not None:
        # what a script becomes has no hash before it is started, but says which build it is
        build = factory.build
        digest = code_files.sha256(code_files.beside(choice.path), cache)
        return f"binary {build.version or ''} {build.build or ''} {digest}"
    try:
        return f"embedded {metadata.version('xllamacpp')}"
    except metadata.PackageNotFoundError:
        return "embedded"


def _build_at(url: str) -> str:
    """What a server says that it is; `?` where it does not answer at once."""
    try:
        with Client(url, timeout_s=_URL_PATIENCE_S, key=api_key.of_environment()) as client:
            return client.props().build_info or "?"
    except EngineError:
        return "?"


def recall(place: Place, warn: Warn) -> tuple[ModelTimings, str] | None:
    """Return what is kept by config id, and the date of the newest of it; None where nothing is."""
    kept = _read(place.path, warn)
    if kept is None:
        return None
    by_key = kept.timings.configs
    configs = {name: by_key[key] for name, key in place.configs.items() if key in by_key}
    return msgspec.structs.replace(kept.timings, configs=configs), kept.measured


def remember(place: Place, measured: ModelTimings, warn: Warn) -> None:
    """Add what was measured, in which old figures fade; a cache that cannot be written is said."""
    new: dict[str, Timing] = {}
    for name, timing in measured.configs.items():
        if name in place.configs:  # configs that are one to llama.cpp share a key
            new[place.configs[name]] = new.get(place.configs[name], Timing()) + timing
    if not new:
        return
    try:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.path.with_suffix(".lock"), _LOCK_TIMEOUT_S):
            old = _read(place.path, warn)
            before = old.timings if old is not None else ModelTimings()
            kept = Kept(
                version=VERSION,
                of=place.of,
                measured=time.strftime("%Y-%m-%d"),
                timings=ModelTimings(
                    configs=_joined(before.configs, new, Timing.faded),
                    prompts=_joined(before.prompts, measured.prompts, Answer.faded),
                    between=measured.between if measured.between.cells else before.between,
                ),
            )
            write_whole(place.path, msgspec.json.encode(kept))
    except OSError as error:
        warn(f"the timings of this run are not kept for later estimates: {error}")


def _joined(old: Mapping[str, Any], new: Mapping[str, Any], faded: Callable[[Any], Any]) -> dict[str, Any]:
    return {**old, **{key: faded(old[key]) + value if key in old else value for key, value in new.items()}}


def _read(path: Path, warn: Warn) -> Kept | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
        if kept.version != VERSION:
            raise msgspec.ValidationError(f"version {kept.version}")
        for fault in _faults(kept):
            raise msgspec.ValidationError(fault)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        warn(f"the kept timings {path} cannot be read and are done without: {error}")
        return None
    return kept


def _faults(kept: Kept) -> Iterator[str]:
    """What cannot be, in a file that is whole: it would be divided by, or be printed, later."""
    if not _DATE.fullmatch(kept.measured):
        yield f"measured is no date: {kept.measured!r}"
    timings = kept.timings
    for name, figures in {**timings.configs, **timings.prompts, "between": timings.between}.items():
        for key, value in msgspec.structs.asdict(figures).items():
            most = _MOST_S if key == "seconds" or key.endswith("_s") else _MOST_N
            if value != 0 and not _LEAST <= value <= most:
                yield f"{key} of {name!r} is {value:g}"
    for name, answer in timings.prompts.items():
        if answer.ended > answer.rounds:
            yield f"{answer.ended:g} of {answer.rounds:g} answers of {name!r} ended"


def _files(spec: SourceSpec) -> list[SourceSpec | FileSpec]:
    """The files that a model is loaded from; of a generated one there need be none yet."""
    draft = getattr(spec, "draft", None)
    own: list[SourceSpec | FileSpec] = [*spec.parts] if spec.parts else [spec]
    files = [part for part in own if part.path is not None or part.package is not None]
    return [*files, *(_files(draft) if draft is not None else [])]


def _stamp(source: SourceSpec | FileSpec, base: Path) -> list[Any]:
    path = sources.locate(source, base)
    stat = path.stat()
    return [str(path), stat.st_size, stat.st_mtime_ns]


def _config_key(config: ConfigSpec) -> str:
    return " ".join([",".join(sorted(config.types)) or BASELINE, config.flags, config.table or ""]).strip()
