"""The generated file: the same bytes for the same spec, checked, never half, made once."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate, rule
from pytest_ngram.models.handbuilt.writer import CHAT_TEMPLATE
from pytest_ngram.models.hashes import file_sha256

SPEC = HandBuiltSpec(target=None, sigma=0.4, width=8)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return generate(SPEC, tmp_path_factory.mktemp("models"))


def sidecar(path: Path) -> dict:
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".lock")


def test_the_same_spec_gives_the_same_bytes(model, tmp_path):
    """Two generations agree to the byte, and so do their sidecars."""
    again = generate(SPEC, tmp_path / "made" / "on the way")
    assert again.read_bytes() == model.read_bytes()
    assert sidecar(again) == sidecar(model)


def test_the_file_is_what_the_spec_says(model):
    """The facts that an inspection reads are the spec's."""
    facts = inspect(model)
    assert (facts.arch, facts.n_layer, facts.nextn, facts.n_expert, facts.n_expert_used) == (
        *("qwen35moe", 4, 1, 8, 2),
    )
    assert (facts.attention_layers, facts.recurrent_layers, facts.n_ctx_train) == (1, 3, 32768)
    assert facts.n_vocab == len(rule(SPEC).vocabulary)
    # three rows of 256 channels and two heads of 64 x 64, float32
    assert facts.recurrent_layer_bytes == 4 * (3 * 256 + 2 * 64 * 64)
    assert facts.chat_template == CHAT_TEMPLATE


def test_the_sidecar_holds_what_was_found(model):
    """Spec, sigma, simulated acceptance by class and their mean, and the file's hash."""
    beside = sidecar(model)
    assert beside["spec"]["sigma"] == beside["sigma"] == 0.4
    by_class = beside["simulated_acceptance"]
    assert by_class["mean"] == pytest.approx(sum(by_class[c] for c in ("en", "ru", "code", "phrase")) / 4)
    assert beside["sha256"] == file_sha256(model)


def test_content_key_follows_spec_and_generator(monkeypatch):
    """Every parameter and the generator's own source have a part in the file's name."""
    specs = [
        *(SPEC, HandBuiltSpec(), HandBuiltSpec(target=0.3), HandBuiltSpec(seed=2)),
        *(HandBuiltSpec(layers=8), HandBuiltSpec(width=64), HandBuiltSpec(n_ctx_train=4096)),
    ]
    keys = {spec.content_key() for spec in specs}
    assert len(keys) == len(specs)
    monkeypatch.setattr("pytest_ngram.models.handbuilt.spec.generator_id", lambda: "another source")
    assert SPEC.content_key() not in keys


def test_an_intact_file_is_not_written_again(model):
    """A second call returns the file untouched."""
    before = model.stat().st_mtime_ns
    assert generate(SPEC, model.parent) == model
    assert model.stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["file", "sidecar", "no sidecar", "no file"])
def test_what_was_damaged_is_written_anew(tmp_path, caplog, damage):
    """A changed file or sidecar is made again, and the log says so."""
    path = generate(SPEC, tmp_path)
    good = path.read_bytes()
    beside = path.with_suffix(".json")
    with caplog.at_level(logging.WARNING):
        if damage == "file":
            path.write_bytes(good[:-1] + b"x")
        elif damage == "sidecar":
            beside.write_text("[]")
        else:
            (beside if damage == "no sidecar" else path).unlink()
        assert generate(SPEC, tmp_path).read_bytes() == good
    assert ("anew" in caplog.text) == (damage in {"file", "sidecar"})
    assert sidecar(path)["sha256"] == file_sha256(path)
    assert leftovers(tmp_path) == sorted([path.name, beside.name])


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    """When writing fails half-way, no file of any name stays, and the cause is the system's."""

    def full(path: Path, *args: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_ngram.models.handbuilt.cache.write_gguf", full)
    with pytest.raises(ModelError) as caught:
        generate(SPEC, tmp_path)
    assert "No space left on device" in caught.value.checked[0]
    assert leftovers(tmp_path) == []


# RLIMIT_FSIZE also raises SIGXFSZ, which Python ignores: the write fails with an error
SMALL_FILES = """
import resource, sys
from pathlib import Path
from pytest_ngram.errors import ModelError
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    generate(HandBuiltSpec(target=None, sigma=0.4), Path(sys.argv[1]))
except ModelError as error:
    print(error)
"""


def test_the_operating_system_refusing_bytes_is_a_model_error(tmp_path):
    """A real limit on file size, in a process of its own: the same end as a full disk."""
    command = [sys.executable, "-c", SMALL_FILES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "cannot be written" in done.stdout
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_is_a_model_error(tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "taken").touch()
    with pytest.raises(ModelError, match="cannot be written"):
        generate(SPEC, tmp_path / "taken")


def test_those_who_ask_together_wait_for_one(tmp_path, monkeypatch):
    """Four callers at once: the weights are built once."""
    built = []
    module = "pytest_ngram.models.handbuilt.cache"
    original = __import__(module, fromlist=["build_weights"]).build_weights
    monkeypatch.setattr(f"{module}.build_weights", lambda spec: (built.append(spec), original(spec))[1])
    callers = [threading.Thread(target=generate, args=(SPEC, tmp_path)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert built == [SPEC]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"target": 0.5, "sigma": 0.1}, "target=0.5, sigma=0.1"),
        ({"target": None}, "target=None, sigma=None"),
        ({"target": 1.5}, "target=1.5"),
        ({"target": float("nan")}, "target=nan"),
        ({"target": None, "sigma": -1.0}, "sigma=-1.0"),
        ({"layers": 6}, "layers=6"),
        ({"layers": 0}, "layers=0"),
        ({"width": 0}, "width=0"),
        ({"seed": -1}, "seed=-1"),
        ({"n_ctx_train": 0}, "n_ctx_train=0"),
    ],
)
def test_values_out_of_range_are_named(given, named):
    """The error names the value and says what may stand there."""
    with pytest.raises(ModelError) as caught:
        HandBuiltSpec(**given)
    assert caught.value.checked == (named,)
    assert caught.value.fix
