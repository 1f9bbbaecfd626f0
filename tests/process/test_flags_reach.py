"""Flags reach the server: each has an effect that the server itself reports."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.process import EngineProcess

Starter = Callable[..., EngineProcess]


def get(server: EngineProcess, path: str) -> Any:
    return httpx.get(f"{server.url}{path}", trust_env=False).json()


def log(server: EngineProcess) -> str:
    """All of it up to now: llama.cpp writes from a thread of its own, which may lag behind."""
    path, size = Path(server.log_path), -1
    while size != (size := path.stat().st_size):
        time.sleep(0.2)
    return path.read_text(encoding="utf-8", errors="replace")


def test_sizes_and_threads(start_embedded: Starter) -> None:
    """-c, -b, -ub, -t, -np, KV types, flash attention and --alias are what the server says it uses."""
    sizes = ["-c", "1024", "-b", "256", "-ub", "128", "-np", "2"]
    server = start_embedded(*sizes, "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on", "--alias", "some-name")
    text = log(server)
    assert get(server, "/props")["total_slots"] == 2
    assert get(server, "/props")["model_alias"] == "some-name"
    assert get(server, "/slots")[0]["n_ctx"] == 512
    assert "n_batch               = 256" in text
    assert "n_ubatch              = 128" in text
    assert "n_threads = 1 (n_threads_batch = 1)" in text
    assert "K (q8_0)" in text
    assert "flash_attn            = enabled" in text


def test_threads_of_batches(start_embedded: Starter) -> None:
    """-tb sets the threads of prompts apart from -t, which it follows otherwise."""
    assert "n_threads = 1 (n_threads_batch = 2)" in log(start_embedded("-tb", "2"))


def test_endpoints(start_embedded: Starter) -> None:
    """--props opens POST /props; --threads-http and --no-warmup show in the log."""
    server = start_embedded("--props", "--threads-http", "3", "--no-warmup")
    assert get(server, "/props")["endpoint_props"] is True
    assert "using 3 threads for HTTP server" in log(server)
    assert "warming up" not in log(server)
    assert "warming up" in log(start_embedded())


def test_cache_flags(start_embedded: Starter) -> None:
    """--cache-ram, --ctx-checkpoints and --fit are what the log says."""
    text = log(start_embedded("--cache-ram", "7", "--ctx-checkpoints", "3"))
    assert "prompt cache is enabled, size limit: 7 MiB" in text
    assert "context checkpoints enabled, max = 3" in text
    plain = log(start_embedded("--ctx-checkpoints", "0"))
    assert "prompt cache is disabled" in plain
    assert "context checkpoints disabled" in plain


def test_load_mode(start_embedded: Starter) -> None:
    """--no-mmap loads the weights into memory of the server's own."""
    assert "CPU_Mapped model buffer" in log(start_embedded())
    text = log(start_embedded("--no-mmap", "--no-repack"))
    assert "CPU_Mapped model buffer" not in text


def test_sampler_defaults(start_embedded: Starter) -> None:
    """Sampler flags and -n become the defaults of requests."""
    server = start_embedded("--top-k", "7", "--top-p", "0.5", "--min-p", "0.25", "-n", "9")
    params = get(server, "/props")["default_generation_settings"]["params"]
    assert (params["top_k"], params["top_p"], params["min_p"]) == (7, 0.5, 0.25)
    answer = httpx.post(f"{server.url}/completion", json={"prompt": [300, 301]}, trust_env=False).json()
    assert answer["tokens_predicted"] == 9


def test_chat_template(start_embedded: Starter) -> None:
    """--chat-template replaces the model's own."""
    server = start_embedded("--chat-template", "{% for m in messages %}<<{{ m.content }}>>{% endfor %}")
    with Client(server.url) as client:
        assert client.apply_template([{"role": "user", "content": "hi"}]) == "<<hi>>"


def test_verbosity(start_embedded: Starter) -> None:
    """-lv 0 is quiet, and -lv 4 is not."""
    assert len(log(start_embedded("-lv", "0"))) < 200
    assert len(log(start_embedded("-lv", "4"))) > 5000


def overridden(server: EngineProcess) -> list[str]:
    """The tensors that llama.cpp says it keeps elsewhere; it says so at -lv 5."""
    found = re.findall(r"tensor (\S+) \(.*\) buffer type overridden to CPU", log(server))
    return [name for name in found if not name.startswith("blk.3.")]  # the MTP block


def test_experts_kept_on_the_cpu(start_embedded: Starter) -> None:
    """--n-cpu-moe means the experts of the first layers, --cpu-moe of all, --override-tensor any tensor."""
    experts = [f"blk.{{}}.ffn_{part}_exps.weight" for part in ("down", "gate", "up")]
    layers = [[name.format(layer) for name in experts] for layer in range(3)]
    all_of_them = [name for layer in layers for name in layer]
    assert overridden(start_embedded("-lv", "5")) == []
    assert sorted(overridden(start_embedded("-lv", "5", "--n-cpu-moe", "2"))) == layers[0] + layers[1]
    assert sorted(overridden(start_embedded("-lv", "5", "--n-cpu-moe", "999"))) == all_of_them
    assert sorted(overridden(start_embedded("-lv", "5", "--cpu-moe"))) == all_of_them
    assert overridden(start_embedded("-lv", "5", "-ot", "output_norm=CPU")) == ["output_norm.weight"]


def test_experts_of_the_draft_kept_on_the_cpu(start_embedded: Starter, model_path: Path) -> None:
    """The same for a draft model, whose layers are overridden apart from the model's."""
    server = start_embedded("-lv", "5", "-md", str(model_path), "--n-cpu-moe-draft", "1", spec="draft-simple")
    assert len(overridden(server)) == 3
    assert all(name.startswith("blk.0.ffn_") for name in overridden(server))


def test_flags_of_a_host_owner(start_embedded: Starter) -> None:
    """A command line of an owner of a large model is taken whole, and each flag is what the log says."""
    line = "-ngl 99 --n-cpu-moe 999 -fa on -ctk q8_0 -ctv q8_0 -ub 256 -b 1024 --no-mmap --mlock"
    text = log(start_embedded(*line.split(), "-lv", "5"))
    sizes = ("n_ubatch              = 256", "n_batch               = 1024", "K (q8_0)", "V (q8_0)")
    for said in (*sizes, "buffer type overridden to CPU", "flash_attn            = enabled"):
        assert said in text
    assert "CPU_Mapped" not in text


def test_speculative_flags(start_embedded: Starter) -> None:
    """Types, n_max and the n-gram sizes are what the server's log says of its drafters."""
    flags = ["--spec-draft-n-max", "2", "--spec-ngram-map-k-size-n", "3", "--spec-ngram-map-k-size-m", "5"]
    server = start_embedded(*flags, spec="draft-mtp,ngram-map-k", trace=True)
    with Client(server.url) as client:
        ids = client.tokenize("the model token cache", parse_special=True, add_special=True)
        client.completion(CompletionRequest(prompt=ids, n_predict=60, temperature=0, seed=1))
    text = log(server)
    assert "statistics        draft-mtp" in text
    assert "statistics      ngram-map-k" in text
    assert "/ 2 draft tokens" in text
    assert "/ 3 draft tokens" not in text


@pytest.mark.parametrize(("length", "least", "most"), [("1", 0, 0), ("3", 2, 2)])
def test_synthetic_acceptance(start_embedded: Starter, length: str, least: int, most: int) -> None:
    """--spec-synth-len sets tokens per step whatever is true: 1 accepts nothing, 1 + n_max everything."""
    server = start_embedded("--spec-draft-n-max", "2", "--spec-synth-len", length, spec="draft-mtp")
    with Client(server.url) as client:
        result = client.completion(
            CompletionRequest(
                prompt=(300, 301, 302), n_predict=30, temperature=0, seed=1, extra={"ignore_eos": True}
            )
        )
    timings = result.timings
    assert timings.draft_n
    assert timings.draft_n_accepted is not None
    verify = timings.draft_n / 2
    assert least * (verify - 1) <= timings.draft_n_accepted <= most * (verify + 1)
