"""Our counts are those of `llama-lookup-create`, pair for pair, on real text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_ngram.engine.binary import BinaryProcess
from pytest_ngram.engine.client import Client
from pytest_ngram.table import Counts
from pytest_ngram.table.build import info
from pytest_ngram.table.counts import count_bigrams, merge
from pytest_ngram.table.format import decode, encode, verify

CREATE, MERGE = "llama-lookup-create", "llama-lookup-merge"
Run = Callable[..., str]
Serve = Callable[[Path, list[str]], BinaryProcess]

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
