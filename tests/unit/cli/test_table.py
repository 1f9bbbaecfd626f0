"""`pytest-ngram table info`, `verify`, `merge` and `price --no-start`, as they are typed."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from pytest_ngram.cli import main
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.table import ID_LIMIT
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import encode

Said = tuple[int, str, str]
Type = Callable[..., Said]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Type:
    """`typed("info", path)`: exit code, standard output, standard error."""

    def run(*words: object) -> Said:
        code = main(["table", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A key of three pairs, a key of one, and keys that were seen once."""
    counts = count_bigrams(
        [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 4], [1, 2, 5], [7, 8, 9], [7, 8, 9], [3, 4, 6]]
    )
    (tmp_path / "chats.lcs").write_bytes(encode(counts))
    return tmp_path / "chats.lcs"


@pytest.fixture(scope="session")
def model(session_cache: Path) -> Path:
    return generate(HandBuiltSpec(), session_cache / "models")


def vocabulary(path: Path, tokens: list[str]) -> Path:
    """A model file of one tensor and these tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    for key in ("block_count", "context_length", "embedding_length", "attention.head_count"):
        writer.add_uint32(f"llama.{key}", 1)
    writer.add_token_list(tokens)
    writer.add_tensor("blk.0.attn_k.weight", np.zeros((1, 1), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_info_tells_how_the_counts_are_spread(typed: Type, table: Path) -> None:
    """Keys, pairs, ids, shares, the drafting keys and the price, of counts that can be checked by hand."""
    code, out, _ = typed("info", table)
    assert code == 0
    assert "3 keys, 5 pairs, 9 different ids up to 9" in out
    assert "pairs of a key: 1 67 %, 2 0 %, 3 33 %, 4 or more 0 %, at most 3" in out
    assert (
        "counts: 8 in all, the largest 3, of a key 2 in the median; 60 % of the pairs were seen once" in out
    )
    assert "2 keys draft by themselves (67 %): of these 50 % with a share of 80 % or more, 50 %" in out
    assert "no manifest beside it" in out


def test_verify_needs_something_to_verify(typed: Type, model: Path) -> None:
    """Neither nothing nor one model alone is a question."""
    for words in ([], ["--model", model]):
        code, _, err = typed("verify", *words)
        assert code == 1
        assert "there is nothing to verify" in err


def test_a_table_passes_alone_and_with_a_model(typed: Type, table: Path, model: Path) -> None:
    """What could not be checked is said, and which model it is fit for."""
    code, out, _ = typed("verify", table)
    assert code == 0
    assert "3 keys, 5 pairs\n" in out
    assert f"are below {ID_LIMIT}" in out
    assert "fit for" in typed("verify", table, "--model", model)[1]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: b"", "0 bytes"),
        (lambda data: data + b"\0\0\0", "record 4, byte 100"),
        (lambda data: data[:-1], "record 3, byte 72"),
        (lambda data: data + data, "record 4, byte 100"),
        (lambda data: data[:20] + struct.pack("<i", ID_LIMIT) + data[24:], "record 1, byte 20"),
        (lambda data: np.frombuffer(data, "<i4").byteswap().tobytes(), "wrong byte order"),
    ],
    ids=["empty", "trailing bytes", "cut", "duplicate keys", "an id of no vocabulary", "byte order"],
)
def test_a_broken_table_exits_1_with_the_byte(
    typed: Type, table: Path, harm: Callable[[bytes], bytes], said: str
) -> None:
    """Each of what the loader takes silently, or dies of, is an error that names the place."""
    table.write_bytes(harm(table.read_bytes()))
    code, _, err = typed("verify", table)
    assert code == 1
    assert said in err
    assert "llama.cpp's loader: " in err


def test_equal_vocabularies_of_two_files(typed: Type, tmp_path: Path) -> None:
    """Two quantisations of one model have one vocabulary: both hashes are shown, and are equal."""
    one, other = (vocabulary(tmp_path / name, ["a", "b", "ц"]) for name in ("q4.gguf", "q8.gguf"))
    code, out, _ = typed("verify", "--model", one, "--model", other)
    assert code == 0
    assert "q4.gguf and q8.gguf have one vocabulary" in out
    assert len(set(re.findall(r"sha256 (\w{64})", out))) == 1


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        (["a", "x", "ц"], "token 1: 'b' and 'x'"),
        (["a", "b"], "token 2: 'ц' and none"),
        (["a", "b", "ц", "<pad>"], "token 3: none and '<pad>'"),
    ],
)
def test_the_first_difference_of_two_vocabularies(
    typed: Type, tmp_path: Path, tokens: list[str], place: str
) -> None:
    """The id and what each has there; a longer list is another vocabulary too."""
    one, other = vocabulary(tmp_path / "a.gguf", ["a", "b", "ц"]), vocabulary(tmp_path / "b.gguf", tokens)
    code, _, err = typed("verify", "--model", one, "--model", other)
    assert code == 1
    assert place in err
    assert len(set(re.findall(r"sha256 (\w{64})", err))) == 2


def test_merge_says_what_it_wrote(typed: Type, table: Path, model: Path, tmp_path: Path) -> None:
    """Keys, pairs and bytes of the sum; one table alone is no merge; a stranger's file is not overwritten."""
    out_path = tmp_path / "sum.lcs"
    code, out, _ = typed("merge", table, table, "-o", out_path, "--model", model)
    assert code == 0
    assert f"{out_path}: 3 keys, 5 pairs, 100 bytes" in out
    assert "counts: 16 in all" in typed("info", out_path)[1]
    assert "only one table" in typed("merge", table, "-o", out_path)[2]
    (tmp_path / "notes.txt").write_text("mine")
    assert "is no table that was built here" in typed("merge", table, table, "-o", tmp_path / "notes.txt")[2]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_price_is_predicted_without_a_start(typed: Type, table: Path, tmp_path: Path) -> None:
    """Of an engine that was never calibrated the default law and its source are named; no start."""
    code, out, err = typed("price", table, "--no-start", "--np", 3, "--cache-dir", tmp_path)
    assert code == 0
    assert "this engine is not calibrated" in out
    assert "predicted for -np 3" in out
    assert "so it fits" in out
    assert "measured  for" not in out + err


def test_a_table_that_does_not_fit_is_refused(typed: Type, table: Path, model: Path, tmp_path: Path) -> None:
    """With the numbers, what would fit, and how to go on all the same."""
    words = ["price", table, "--no-start", "--np", 10**9, "--model", model, "--cache-dir", tmp_path]
    code, _, err = typed(*words)
    assert code == 1
    assert re.search(
        r"needs \d+\.\d\d GiB, with model and caches \d+\.\d\d GiB; \d+\.\d\d GiB are available", err
    )
    assert "3 keys, 5 pairs, -np 1000000000" in err
    assert "no pruning of the table would fit" in err
    assert "give --force" in err
    code, out, _ = typed(*words, "--force")
    assert code == 0
    assert "are available" in out


def test_a_price_for_another_models_table_is_refused(typed: Type, table: Path, tmp_path: Path) -> None:
    """The model that it has to fit beside is also the one whose vocabulary it must be of."""
    small = vocabulary(tmp_path / "small.gguf", ["a", "b"])
    code, _, err = typed("price", table, "--no-start", "--model", small, "--cache-dir", tmp_path)
    assert code == 1
    assert "outside the vocabulary of 2" in err


@pytest.mark.parametrize("np", ["0", "-1", "x", "1.5"])
def test_slots_are_a_whole_number(typed: Type, table: Path, np: str) -> None:
    """A wrong number is a wrong command line."""
    with pytest.raises(SystemExit) as caught:
        typed("price", table, f"--np={np}")
    assert caught.value.code == 2


def test_a_server_at_a_url_cannot_be_priced(typed: Type, table: Path, tmp_path: Path) -> None:
    """It is not ours to start; a prediction by the default law is still to be had."""
    words = ["price", table, "--llama-server", "http://127.0.0.1:9", "--cache-dir", tmp_path]
    code, _, err = typed(*words)
    assert code == 1
    assert "is not ours to start" in err
    assert typed(*words, "--no-start")[0] == 0


def test_a_kept_calibration_that_is_broken_is_done_without(typed: Type, table: Path, tmp_path: Path) -> None:
    """It is said, and the default law is used."""
    from pytest_ngram.engine.factory import Factory
    from pytest_ngram.engine.select import choose
    from pytest_ngram.table.build.pricing import Pricer

    path = Pricer(Factory(choose(None), cache_dir=tmp_path), tmp_path).path
    path.parent.mkdir()
    for content in ("{", json.dumps({"version": 1, "engine": "x", "measured": "2026-01-01", "samples": []})):
        path.write_text(content)
        _, out, err = typed("price", table, "--no-start", "--cache-dir", tmp_path)
        assert "this engine is not calibrated" in out
        assert "is done without" in err
