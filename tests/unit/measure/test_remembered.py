"""What a host remembers: by what it was measured on, never in the way of a run."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import EngineChoice
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.matrix.timings import Answer, Between, ModelTimings, Timing
from pytest_ngram.measure import remembered
from pytest_ngram.measure.remembered import Place, place_of, recall, remember

TIMING = Timing(1, 2, 1, 4, 40, 4, 80, 8, 13)
MEASURED = ModelTimings({"none": TIMING, "mtp1": TIMING}, {"p": Answer(10, 1)}, Between(4, 1))
MATRIX = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf, flags: -t 1}
configs:
  none: {}
  mtp1: {types: [draft-mtp]}
prompt_sets:
  chat: {path: chat.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 8}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "a.gguf").write_bytes(b"weights")
    return tmp_path


def place(base: Path, text: str = MATRIX, engine: str = "embedded 1") -> Place:
    matrix: MatrixSpec = decode_matrix(text, "m.yaml")
    found = place_of(base / "cache", "alpha", matrix, base, engine)
    assert found is not None
    return found


def no_warning(text: str) -> None:
    raise AssertionError(text)


def test_what_was_measured_is_found_again(base: Path) -> None:
    """Timings, prompts and what lies between cells are kept; which cells are run changes nothing."""
    assert recall(place(base), no_warning) is None
    remember(place(base), MEASURED, no_warning)
    other_cells = MATRIX.replace("{path: a.gguf,", "{path: a.gguf, n_predict: 9, configs: [none],")
    for text in (MATRIX, other_cells):
        found = recall(place(base, text), no_warning)
        assert found is not None
        assert found[0] == MEASURED


def test_other_files_flags_and_engines_are_others(base: Path) -> None:
    """A new model file, other flags of model or config, another engine: nothing is known of them."""
    remember(place(base), MEASURED, no_warning)
    assert recall(place(base, engine="embedded 2"), no_warning) is None
    assert recall(place(base, MATRIX.replace("-t 1", "-t 2")), no_warning) is None
    changed = recall(
        place(base, MATRIX.replace("[draft-mtp]", "[draft-mtp], flags: --spec-draft-n-max 3")), no_warning
    )
    assert changed is not None
    assert set(changed[0].configs) == {"none"}
    os.utime(base / "a.gguf", ns=(0, 0))
    assert recall(place(base), no_warning) is None


def test_a_model_that_is_not_there_has_no_place(base: Path) -> None:
    """Nothing is read, made or raised for an estimate."""
    (base / "a.gguf").unlink()
    assert place_of(base / "cache", "alpha", decode_matrix(MATRIX, "m.yaml"), base, "embedded 1") is None
    assert not (base / "cache").exists()


def test_old_figures_fade(base: Path) -> None:
    """After many runs the mean follows the newest ones, and the file does not grow."""
    for _ in range(50):
        remember(place(base), MEASURED, no_warning)
    faster = ModelTimings({"none": Timing(1, 2, 1, 64, 640, 64, 1280, 32, 112)})
    remember(place(base), faster, no_warning)
    found = recall(place(base), no_warning)
    assert found is not None
    seconds = found[0].configs["none"].predicted_s / found[0].configs["none"].later_n
    assert seconds == pytest.approx((0.1 + 0.025) / 2)
    assert found[0].prompts.keys() == {"p"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 99, "of": {}, "measured": "", "timings": {}}']
)
def test_a_damaged_file_is_said_and_done_without(base: Path, content: bytes) -> None:
    """It never stops a run, and the next run writes it whole again."""
    here = place(base)
    here.path.parent.mkdir(parents=True)
    here.path.write_bytes(content)
    said: list[str] = []
    assert recall(here, said.append) is None
    assert len(said) == 1
    assert str(here.path) in said[0]
    remember(here, MEASURED, said.append)
    assert recall(here, no_warning) is not None


def test_a_cache_that_cannot_be_written_is_said(base: Path) -> None:
    """The run's results do not depend on it."""
    (base / "cache").write_text("a file where the folder should be")
    said: list[str] = []
    remember(place(base), MEASURED, said.append)
    assert said
    assert "not kept" in said[0]


def test_nothing_measured_writes_nothing(base: Path) -> None:
    """A session without cells leaves no file."""
    remember(place(base), ModelTimings(), no_warning)
    assert not (base / "cache").exists()


EQUAL = """
  x1: {types: [draft-mtp, ngram-mod]}
  x2: {types: [ngram-mod, draft-mtp]}
"""


def test_configs_that_are_one_to_llama_cpp_add_up(base: Path) -> None:
    """Types in another order share a key, so what both measured is kept, whichever comes last."""
    text = MATRIX.replace("\nprompt_sets:", EQUAL + "prompt_sets:")
    other = Timing(1, 4, 1, 2, 20, 2, 40, 4, 7)
    remember(place(base, text), ModelTimings({"x1": TIMING, "x2": other}), no_warning)
    found = recall(place(base, text), no_warning)
    assert found is not None
    assert found[0].configs == {"x1": TIMING + other, "x2": TIMING + other}


def test_the_embedded_engine_is_told_without_starting_it() -> None:
    """Its key is its version."""
    key = remembered.engine_key(Factory(EngineChoice("embedded")), Path("nowhere"))
    assert key == f"embedded {metadata.version('xllamacpp')}"


def test_a_binary_is_told_by_its_libraries_too(tmp_path: Path) -> None:
    """llama.cpp's code is in the libraries beside the program: another one is another engine."""
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\necho 'version: 7 (abc)'\n")
    path.chmod(0o755)

    def key() -> str:
        return remembered.engine_key(Factory(EngineChoice("binary", path=path)), tmp_path / "cache")

    seen = {key()}
    for content in (b"code", b"other code"):
        (tmp_path / "libllama.so.0").write_bytes(content)
        seen.add(key())
    path.write_text("#!/bin/sh\necho 'version: 8 (def)'\n")
    seen.add(key())
    assert len(seen) == 4
    assert key() in seen


def test_a_script_is_told_by_what_it_becomes(tmp_path: Path) -> None:
    """The bytes of a script stay when the program behind it is built anew."""
    behind, path = tmp_path / "elsewhere" / "server", tmp_path / "llama-server"
    behind.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {behind} "$@"\n')
    keys = []
    for build in ("7 (abc)", "8 (def)"):
        behind.write_text(f"#!/bin/sh\necho 'version: {build}'\n")
        for program in (behind, path):
            program.chmod(0o755)
        keys.append(remembered.engine_key(Factory(EngineChoice("binary", path=path)), tmp_path / "cache"))
    assert keys[0] != keys[1]


class Props(BaseHTTPRequestHandler):
    """Says which build it is."""

    build = "b1"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        body = json.dumps({"total_slots": 1, "build_info": self.build}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_url_is_told_by_address_build_and_flags() -> None:
    """A server that was built anew or started with other flags at the same address is another engine."""

    def key(url: str, *told: str) -> str:
        return remembered.engine_key(Factory(EngineChoice("url", url=url), told=told), Path("nowhere"))

    gone = "http://127.0.0.1:1"
    assert gone in key(gone)
    assert key(gone) != key(gone, "-t", "2") != key(gone, "-t", "1")
    assert key(gone, "-t", "1", "-ngl", "0") == key(gone, "-ngl", "0", "--threads", "1")
    keys = set()
    for build in ("b1", "b2"):
        with HTTPServer(("127.0.0.1", 0), type("Handler", (Props,), {"build": build})) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            keys.add(key(f"http://127.0.0.1:{server.server_port}").replace(str(server.server_port), "PORT"))
            server.shutdown()
    assert len(keys) == 2
