"""The metrics reader, the hash cache, the handshake, and what importing costs."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ngram.engine import handshake, identity, prometheus
from pytest_ngram.errors import EngineError


def test_metrics_are_read() -> None:
    """Names with their labels become numbers; comments are passed over."""
    text = (
        '# HELP x a\n# TYPE x counter\nllamacpp:x_total 3\nllamacpp:y{position="0"} 2.5\n\nz 1e3 1700000000\n'
    )
    assert prometheus.parse(text) == {"llamacpp:x_total": 3.0, 'llamacpp:y{position="0"}': 2.5, "z": 1000.0}


@pytest.mark.parametrize("text", ["x", "x three", "1x 3", "x 1\nx 2", '{"error": 1}', "x{a 3"])
def test_other_text_is_refused(text: str) -> None:
    """What is not a sample is an error that names the line, never skipped."""
    with pytest.raises(EngineError, match="not Prometheus text") as caught:
        prometheus.parse(text)
    assert "line " in caught.value.checked[0]


def test_hash_is_kept(tmp_path: Path) -> None:
    """A file is hashed once; a changed file, or a damaged cache, is hashed again."""
    file, cache = tmp_path / "lib.so", tmp_path / "cache"
    file.write_bytes(b"one")
    want = hashlib.sha256(b"one").hexdigest()
    assert identity.file_sha256(file, cache) == want == identity.file_sha256(file, None)
    (kept,) = cache.iterdir()
    kept.write_text(kept.read_text().replace(want, "kept"))
    assert identity.file_sha256(file, cache) == "kept"
    kept.write_text("{")
    assert identity.file_sha256(file, cache) == want
    file.write_bytes(b"other")
    assert identity.file_sha256(file, cache) == hashlib.sha256(b"other").hexdigest()


def test_unwritable_cache_is_done_without(tmp_path: Path) -> None:
    """A cache folder that cannot be made costs time, not the run."""
    file = tmp_path / "lib.so"
    file.write_bytes(b"one")
    assert identity.file_sha256(file, file / "cache") == hashlib.sha256(b"one").hexdigest()


def test_handshake_round_trip() -> None:
    """What the child writes is what the parent reads, in one line."""
    ready = handshake.Ready(
        url="http://127.0.0.1:1", pid=3, spec_types=("ngram-mod",), capabilities={"slots": True}
    )
    line = handshake.encode(ready)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert handshake.decode(line) == ready


@pytest.mark.parametrize("module", ["flags", "command", "preflight", "decodes", "log_reader"])
def test_pure_parts_import_nothing_heavy(module: str) -> None:
    """Reading flags and logs costs neither httpx nor the engine itself."""
    heavy = "{'httpx', 'xllamacpp', 'psutil'}"
    code = f"import sys, pytest_ngram.engine.{module}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_rounded_counters_are_unknown() -> None:
    """llama-server prints six digits: from a million on a difference of two readings is no count."""
    before = {"small": 7.0, "large": 1.23457e6, "passing": 999_990.0, "exact": 1_234_567.0}
    after = {"small": 9.0, "large": 1.23458e6, "passing": 1.00001e6, "exact": 1_234_569.0, "new": 3.0}
    assert prometheus.added(before, after) == {"small": 2.0, "exact": 2.0, "new": 3.0}
