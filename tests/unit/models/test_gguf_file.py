"""Reading a model file's facts, and every way in which the file can be bad."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import ModelError
from pytest_ngram.models.gguf_file import inspect, record_model
from pytest_ngram.models.hashes import file_sha256, model_sha256


def test_facts_of_a_dense_model(write_gguf):
    """The facts are those that were written, and what is not there is None or 0."""
    path = write_gguf()
    facts = inspect(path)
    assert (facts.name, facts.arch, facts.n_layer, facts.nextn, facts.n_vocab) == ("Small", "llama", 2, 0, 3)
    assert (facts.n_expert, facts.n_expert_used, facts.sliding_window) == (None, None, None)
    assert (facts.n_ctx_train, facts.n_embd, facts.n_head, facts.n_head_kv) == (512, 32, 4, 2)
    assert (facts.key_length, facts.value_length, facts.attention_layers) == (8, 8, 2)
    assert facts.tensor_bytes == 2 * 16 * 32 * 2 + 32 * 4
    assert facts.size_bytes == path.stat().st_size
    assert facts.chat_template == "{{ messages }}"


def test_vocab_hash_is_of_the_tokens_alone(write_gguf):
    """Files of the same vocabulary share the hash; another token, or another order, changes it."""
    base = inspect(write_gguf()).vocab_sha256
    expected = b"".join(struct.pack("<Q", 1) + token for token in (b"a", b"b", b"c"))
    assert base == hashlib.sha256(expected).hexdigest()
    assert inspect(write_gguf("other.gguf", template=None)).vocab_sha256 == base
    assert inspect(write_gguf("more.gguf", tokens=("a", "b", "d"))).vocab_sha256 != base
    assert inspect(write_gguf("order.gguf", tokens=("b", "a", "c"))).vocab_sha256 != base
    assert inspect(write_gguf("joined.gguf", tokens=("ab", "", "c"))).vocab_sha256 != base


def test_mtp_layers_are_not_counted_as_trunk(write_gguf):
    """`n_layer` is the trunk; the MTP layer's cache is kept apart from `attention_layers`."""
    facts = inspect(write_gguf(extra=lambda w: w.add_nextn_predict_layers(1)))
    assert (facts.n_layer, facts.nextn, facts.attention_layers, facts.kv_heads) == (1, 1, 1, (2, 2))


def test_kv_heads_given_per_layer(write_gguf):
    """Architectures that list their heads layer by layer are understood."""
    listed = inspect(
        write_gguf(
            skip=("attention.head_count_kv",),
            extra=lambda w: w.add_array("llama.attention.head_count_kv", [0, 2]),
        )
    )
    assert (listed.kv_heads, listed.attention_layers, listed.n_head_kv) == ((0, 2), 1, 2)


def test_record_model_carries_what_the_record_names(write_gguf):
    """The record's model is the file's facts and the hash that was given."""
    path = write_gguf()
    facts = inspect(path)
    model = record_model(facts, file_sha256(path))
    assert model.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (model.name, model.n_layer, model.nextn, model.n_expert) == ("Small", 2, 0, None)
    assert model.vocab_sha256 == facts.vocab_sha256


def bad(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        inspect(path)
    assert str(path) in str(caught.value)
    assert caught.value.fix
    return caught.value


def test_missing_folder_and_empty_are_told_apart(tmp_path):
    """Three ways of no file at all, each with its own cause."""
    assert "does not exist" in bad(tmp_path / "none.gguf").cause
    assert "is a folder" in bad(tmp_path).cause
    empty = tmp_path / "empty.gguf"
    empty.touch()
    assert "is empty" in bad(empty).cause


def test_an_unreadable_file_says_why(write_gguf, monkeypatch):
    """The operating system's reason stands in the cause."""
    path = write_gguf()

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "Permission denied" in bad(path).cause


@pytest.mark.parametrize(
    ("content", "cause", "checked"),
    [
        (b"PK\x03\x04 a zip", "is not GGUF", "PK"),
        (b"GG", "is not GGUF", "GG"),
        (b"GGUF", "cut or damaged in its header", "4 bytes"),
        (b"GGUF" + struct.pack("<I", 1), "GGUF version 1", "versions 2 and 3"),
        (b"GGUF" + struct.pack("<I", 9), "GGUF version 9", "versions 2 and 3"),
        (b"GGUF" + struct.pack(">I", 3), "big-endian", ""),
        (b"GGUF" + struct.pack("<I", 3), "cut or damaged in its header", "byte 8"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "cut or damaged in its header", f"{2**60} bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n", "git-lfs pointer", "size 5"),
    ],
    ids=["zip", "two-bytes", "magic-only", "v1", "v9", "big-endian", "no-counts", "absurd-length", "lfs"],
)
def test_what_is_no_model_is_named(tmp_path, content, cause, checked):
    """The cause says what the file is instead, and what was seen."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    error = bad(path)
    assert cause in error.cause
    assert checked in "\n".join(error.checked)


def end_of_tensors(content: bytes) -> int:
    """The last tensor is all ones; what follows it is padding."""
    return content.rindex(struct.pack("<f", 1.0)) + 4


def test_cut_tensor_data_says_how_many_bytes_are_missing(write_gguf):
    """The last tensor's end against the file's size, to the byte."""
    path = write_gguf()
    whole = path.read_bytes()
    path.write_bytes(whole[: end_of_tensors(whole) - 100])
    assert ": 100 bytes are missing" in bad(path).cause


def test_bytes_after_the_last_tensor_are_refused(write_gguf):
    """A file with more in it than its tensors was put together wrongly; padding to the alignment is none."""
    path = write_gguf()
    content = path.read_bytes()
    end = end_of_tensors(content)
    path.write_bytes(content + b"x")
    error = bad(path)
    assert "goes on after its last tensor" in error.cause
    assert f"{len(content) + 1} bytes" in error.checked[1]
    assert str(end) in error.checked[1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_a_model_error(write_gguf, share):
    """No cut, wherever it falls, gives another exception or passes."""
    path = write_gguf()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * end_of_tensors(whole))])
    bad(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2000), value=st.integers(0, 255))
def test_a_damaged_byte_is_a_model_error_or_read(write_gguf, at, value):
    """One wrong byte never ends in an exception of struct, numpy or the like."""
    path = write_gguf()
    content = bytearray(path.read_bytes())
    content[at % len(content)] = value
    path.write_bytes(content)
    try:
        inspect(path)
    except ModelError as error:
        assert error.fix  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("key", ["block_count", "context_length", "embedding_length", "tokens"])
def test_a_missing_key_is_named(write_gguf, key):
    """A file without what every language model has says which key is missing."""
    assert key in bad(write_gguf(skip=(key,))).cause


def shard(number: int, count: int):
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", count)

    return add


def test_shards_are_read_together_from_the_first(write_gguf):
    """Sizes are those of all shards; a later shard and a missing one are errors that name files."""
    first = write_gguf("m-00001-of-00002.gguf", extra=shard(0, 2))
    error = bad(first)
    assert "1 of the model's 2 shards are missing" in error.cause
    assert "m-00002-of-00002.gguf" in error.checked
    second = write_gguf("m-00002-of-00002.gguf", extra=shard(1, 2))
    assert inspect(first).size_bytes == first.stat().st_size + second.stat().st_size
    error = bad(second)
    assert "shard 2 of 2" in error.cause
    assert "m-00001-of-00002.gguf" in error.fix


def test_the_hash_of_a_model_covers_every_shard(write_gguf):
    """One file: its own hash. Split: a change in any shard, or of their order, is another model."""
    whole = write_gguf()
    assert model_sha256(inspect(whole)) == hashlib.sha256(whole.read_bytes()).hexdigest()
    first, second = (write_gguf(f"m-0000{n + 1}-of-00002.gguf", extra=shard(n, 2)) for n in range(2))
    facts = inspect(first)
    assert facts.shards == (first, second)
    assert facts.path == first
    lines = "".join(hashlib.sha256(path.read_bytes()).hexdigest() + "\n" for path in facts.shards)
    found = model_sha256(facts)
    assert found == hashlib.sha256(lines.encode()).hexdigest()
    assert model_sha256(replace(facts, shards=facts.shards[::-1])) != found
    second.write_bytes(second.read_bytes()[:-1] + b"!")
    assert model_sha256(facts) != found


def test_the_hash_of_a_file_may_come_from_elsewhere(write_gguf):
    """Each shard is asked for once, in order, so that kept hashes can answer."""
    facts = replace(inspect(write_gguf()), shards=(Path("a"), Path("b")))
    asked = []
    model_sha256(facts, lambda path: asked.append(path) or "0" * 64)
    assert asked == [Path("a"), Path("b")]


@pytest.mark.parametrize("blocks", [0, 2**20, 2**32 - 1])
def test_a_number_of_layers_that_cannot_be_is_refused(write_gguf, blocks):
    """A damaged count must not make a list of that length: there are no more layers than tensors."""
    path = write_gguf(skip=("block_count",), extra=lambda writer: writer.add_block_count(blocks))
    assert "cannot be" in bad(path).cause


def test_what_is_no_regular_file_is_refused(tmp_path):
    """A pipe would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in bad(tmp_path / "pipe").cause
