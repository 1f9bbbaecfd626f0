"""Puts a hand-built model into a folder, once, whoever asks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from pytest_ngram.errors import ModelError
from pytest_ngram.files import locked, remove_leftovers, replacing
from pytest_ngram.models.handbuilt.dial import Dialled, Simulation, dial
from pytest_ngram.models.handbuilt.rule import Rule, rule_of_seed
from pytest_ngram.models.handbuilt.spec import HandBuiltSpec, generator_id
from pytest_ngram.models.handbuilt.trunk import build_weights
from pytest_ngram.models.handbuilt.writer import write_gguf
from pytest_ngram.models.hashes import file_sha256
from pytest_ngram.models.kept import intact_sha256

_LOCK_TIMEOUT_S = 600.0  # the deepest model takes seconds


def rule(spec: HandBuiltSpec) -> Rule:
    """Return the rule of the spec's model; it depends on the seed alone."""
    return rule_of_seed(spec.seed)


def generate(spec: HandBuiltSpec, folder: Path) -> Path:
    """Return the spec's model file in the folder, written there if it is missing or not what it was.

    Beside `<key>.gguf` stands `<key>.json` with the spec, the sigma found, the acceptance that the simulation
    expects by class, and the file's sha256, which is checked on every call; a mismatch is logged as a warning
    and the file written anew. Processes that ask at the same time wait for one another.

    Raises:
        ModelError: the folder cannot be written, the disk is full, or the target cannot be reached; no
            half-written file stays behind.
    """
    model = folder / f"{spec.content_key()}.gguf"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(model.with_suffix(".lock"), _LOCK_TIMEOUT_S):
            remove_leftovers(folder, model.stem)
            if intact_sha256(model, file_sha256) is None:
                _write(spec, model)
    except OSError as error:
        raise ModelError(
            "the hand-built model cannot be written",
            checked=[f"{folder}: {error.strerror or error}"],
            fix="free some space, or name a folder that can be written",
        ) from error
    return model


def _write(spec: HandBuiltSpec, model: Path) -> None:
    weights = build_weights(spec)
    if spec.target is not None:
        dialled = dial(weights, spec.target)
    else:
        assert spec.sigma is not None  # noqa: S101 - the spec holds exactly one of the two
        dialled = Simulation(weights).acceptance(spec.sigma)
    model.with_suffix(".json").unlink(missing_ok=True)  # no moment in which it vouches for another file
    with replacing(model) as new:
        write_gguf(new, spec, weights.with_sigma(dialled.sigma), weights.rule.vocabulary)
        sha256 = file_sha256(new)
    with replacing(model.with_suffix(".json")) as new:
        new.write_text(_sidecar(spec, dialled, sha256), encoding="utf-8")


def _sidecar(spec: HandBuiltSpec, dialled: Dialled, sha256: str) -> str:
    described = {
        "generator": generator_id(),
        "spec": asdict(spec),
        "sigma": dialled.sigma,
        "simulated_acceptance": {**dialled.acceptance, "mean": dialled.mean},
        "sha256": sha256,
    }
    return json.dumps(described, indent=2) + "\n"
