"""Small GGUF files, written by the gguf library itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

Write = Callable[..., Path]

NUMBERS = {
    "block_count": 2,
    "context_length": 512,
    "embedding_length": 32,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}


def add_tensors(writer: gguf.GGUFWriter) -> None:
    for layer in range(2):
        writer.add_tensor(f"blk.{layer}.attn_k.weight", np.zeros((16, 32), np.float16))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))


def write_to(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def write_gguf(tmp_path: Path) -> Write:
    """A dense llama of two layers; keyword arguments change what the tests need changed."""

    def write(
        name: str = "small.gguf",
        *,
        tokens: tuple[str, ...] = ("a", "b", "c"),
        template: str | None = "{{ messages }}",
        skip: tuple[str, ...] = (),
        extra: Callable[[gguf.GGUFWriter], object] = lambda writer: None,
    ) -> Path:
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        writer.add_name("Small")
        for key in [key for key in NUMBERS if key not in skip]:
            writer.add_uint32(f"llama.{key}", NUMBERS[key])
        if "tokens" not in skip:
            writer.add_token_list(list(tokens))
        if template is not None:
            writer.add_chat_template(template)
        extra(writer)
        add_tensors(writer)
        write_to(writer)
        return tmp_path / name

    return write
