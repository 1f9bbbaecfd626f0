"""What the stand-ins of `tests/process` stand for: a native llama-server keeps every promise made of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_ngram.engine import capabilities, compare, listening, process, url
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.build import OF_FLAGS, OF_REQUESTS
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.flag_table import FLAGS
from pytest_ngram.errors import EngineError

Starter = Callable[..., BinaryProcess]

REQUEST = CompletionRequest(prompt=(300, 301, 302), n_predict=40, temperature=0, seed=1)


def test_binary_says_what_it_has(program: Path, cache_dir: Path) -> None:
    """Its --help is read whole: types, every name of a capability, every flag of the embedded engine."""
    build = capabilities.probe_binary(program, cache_dir)
    assert {"draft-mtp", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache"} <= set(build.spec_types)
    assert set(build.capabilities) == set(OF_FLAGS)
    assert build.capabilities["n-cpu-moe"]
    known = {name for flag in build.flags for name in flag.names}
    newer = {  # than b10434
        "--spec-synth-len", "--spec-synth-rates", "--spec-draft-sampling",
        "--lazy-mode", "--kv-unified-per-slot",
    }  # fmt: skip
    missing = {flag.names[0] for flag in FLAGS if not known & set(flag.names)} - newer
    assert not missing


def test_answer_is_asked_for_once(program: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question is answered from the cache: the program need not even be there to run."""
    first = capabilities.probe_binary(program, cache_dir)
    monkeypatch.setattr(subprocess, "run", None)
    assert capabilities.probe_binary(program, cache_dir) == first


def test_counters_and_log_lines_are_read(start_native: Starter) -> None:
    """A request that drafts shows every counter and every log line that we read."""
    server = start_native(spec="draft-mtp")
    with Client(server.url) as client:
        seen = capabilities.probe_server(client, server.log_path)
    assert seen == dict.fromkeys((*OF_REQUESTS, "metrics", "slots"), True)


def test_hash_covers_the_libraries(start_native: Starter, program: Path) -> None:
    """The hash is over the binary and llama.cpp's libraries as the running server has mapped them."""
    server = start_native()
    names = [path.name for path in server._code]
    assert program.name in names
    assert any("ggml" in name for name in names)
    assert not any(name.startswith(("libc.", "libstdc++")) for name in names)
    assert server.describe().binary_sha256 is not None


def test_same_tokens_as_the_embedded_engine(start_native: Starter, model_path: Path, tmp_path: Path) -> None:
    """On the hand-built model, whose greedy text has no near-ties, both kinds of engine agree."""
    native = start_native(spec="draft-mtp")
    argv = server_argv(model_path, model_flags=["-t", "1"])
    with (
        process.start(argv, log_path=tmp_path / "embedded.log") as embedded,
        Client(native.url) as one,
        Client(embedded.url) as other,
    ):
        assert one.completion(REQUEST).tokens == other.completion(REQUEST).tokens


def test_flags_that_the_embedded_engine_lacks(start_native: Starter) -> None:
    """Flags of the binary alone are taken by it."""
    server = start_native(extra=("--n-cpu-moe", "999", "-ngl", "0"))
    assert psutil.Process(server.pid).cmdline()[-4:] == ["--n-cpu-moe", "999", "-ngl", "0"]


def test_experts_are_kept_where_the_embedded_engine_keeps_them(
    start_native: Starter, model_path: Path, tmp_path: Path
) -> None:
    """--n-cpu-moe, --cpu-moe and --override-tensor name the same tensors in both kinds of engine."""
    for flags in (("--n-cpu-moe", "2"), ("--cpu-moe",), ("-ot", "attn_q=CPU,ffn_up_exps=CPU")):
        native = start_native("-lv", "5", *flags)
        argv = server_argv(model_path, model_flags=["-t", "1"], config_flags=["-lv", "5", *flags])
        with process.start(argv, log_path=tmp_path / "embedded.log") as embedded:
            theirs, ours = (overridden(server.log_path) for server in (native, embedded))
        assert theirs == ours != []


def overridden(log_path: Path) -> list[str]:
    text = log_path.read_text(encoding="utf-8", errors="replace")
    return re.findall(r"tensor (\S+) \(.*\) buffer type overridden to", text)


def test_older_names_of_a_load_mode(start_native: Starter) -> None:
    """A build without --no-mmap is said to have another name for it."""
    with pytest.raises(EngineError, match="--no-mmap is not offered") as caught:
        start_native("--no-mmap")
    assert "--load-mode none" in caught.value.fix
    with pytest.raises(EngineError, match="write --load-mode mlock for both"):
        start_native("--no-mmap", "--mlock")


def test_flags_of_a_host_owner(start_native: Starter) -> None:
    """A command line of an owner of a large model is taken whole, and each flag is what the log says."""
    line = "-ngl 99 --n-cpu-moe 999 -fa on -ctk q8_0 -ctv q8_0 -ub 256 -b 1024 --load-mode mlock"
    text = start_native(*line.split(), "-lv", "5").log_path.read_text(errors="replace")
    sizes = ("n_ubatch              = 256", "n_batch               = 1024", "K (q8_0)", "V (q8_0)")
    for said in (*sizes, "buffer type overridden to CPU", "flash_attn            = enabled"):
        assert said in text


def test_quiet_server_is_found_by_its_socket(start_native: Starter) -> None:
    """At -lv 0 the log does not say where it listens; its socket does."""
    server = start_native("-lv", "0")
    assert listening.url_in_log(server.log_path) is None
    with Client(server.url) as client:
        assert client.health()


def test_missing_table_aborts_and_is_explained(start_native: Starter, tmp_path: Path) -> None:
    """An abort is explained by its log line."""
    with pytest.raises(EngineError, match="table") as caught:
        start_native(spec="ngram-cache", extra=("-lcs", str(tmp_path / "none.bin")))
    assert "signal SIGABRT (6)" in caught.value.checked


def test_wrong_value_is_said(start_native: Starter) -> None:
    """What the binary says of a wrong value is in the error itself."""
    with pytest.raises(EngineError, match="q9_9") as caught:
        start_native(extra=("-ctk", "q9_9"))
    assert caught.value.outcome == "refused"


def test_sigterm_ends_it(start_native: Starter) -> None:
    """It ends by itself at SIGTERM, with exit code 0."""
    server = start_native()
    server.stop()
    assert server.exit_code == 0


def test_url_of_a_native_server(start_native: Starter, model_path: Path) -> None:
    """A native server tells its types; how it drafts has to be told by whoever started it."""
    server = start_native(spec="draft-mtp")
    seen = url.connect(server.url).seen
    assert seen.spec_types == ("draft-mtp",)
    argv = server_argv(model_path, spec_types=["draft-mtp"])
    with pytest.raises(EngineError, match="no answer of the server tells"):
        compare.check_start(argv, seen)
    compare.check_start(argv, seen, told=["--spec-type", "draft-mtp"])


def test_many_texts_are_tokenized_as_if_alone(start_native: Starter) -> None:
    """This build keeps the texts of one request apart: ids are those of single requests."""
    texts = ["the model", " expert", "", "<|im_end|>", "\n\nthe", "é", "model " * 20_000, "-1"]
    with Client(start_native().url) as talking:
        many = talking.tokenize_many(texts)
        alone = [talking.tokenize(text, parse_special=False, add_special=False) for text in texts]
    assert [tuple(ids.tolist()) for ids in many] == alone


PARENT = """
import time
from pathlib import Path
from pytest_ngram.engine import binary
argv = ["-m", {model!r}, "-t", "1", "-c", "512", "--port", "0", "--host", "127.0.0.1"]
server = binary.start(argv, program=Path({program!r}), log_path=Path({log!r}), cache_dir=Path({cache!r}))
print(server.pid, flush=True)
time.sleep(60)
"""


def test_none_after_a_killed_parent(
    program: Path, model_path: Path, cache_dir: Path, tmp_path: Path, assert_gone: Callable[..., None]
) -> None:
    """SIGKILL of the process that started it ends the server."""
    log, cache = str(tmp_path / "server.log"), str(cache_dir)
    code = PARENT.format(model=str(model_path), program=str(program), log=log, cache=cache)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    assert_gone(pid)
