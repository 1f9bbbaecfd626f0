"""Texts that share a request: grouped, told apart, and asked for alone where a server cannot."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.engine.many_texts import SEAM, Content, Ids, ManyTexts
from pytest_ngram.errors import EngineError

TEXTS = st.lists(st.text(max_size=8), max_size=12)


def ids_of(text: str) -> list[int]:
    """A tokenizer of bytes whose first id depends on where the text begins."""
    return [1000 + byte if i == 0 else byte for i, byte in enumerate(text.encode())]


class Asked:
    """Answers as llama-server does; `how` is what it does with lists of texts."""

    def __init__(self, how: str = "apart") -> None:
        self.how = how
        self.contents: list[Content] = []
        self._lock = threading.Lock()

    def __call__(self, content: Content, size_bytes: int) -> Ids:
        with self._lock:
            self.contents.append(content)
        if isinstance(content, str):
            return np.array(ids_of(content), np.int32)
        if self.how == "refuses":
            raise EngineError("no lists here", outcome="refused", fix="")
        if self.how == "dies":
            raise EngineError("gone", outcome="crash", fix="")
        if self.how == "joins":
            return np.array(ids_of("".join(part for part in content if isinstance(part, str))), np.int32)
        parts = [ids_of(part) if isinstance(part, str) else [part] for part in content]
        return np.array([id_ for part in parts for id_ in part], np.int32)


@given(TEXTS, st.integers(1, 40), st.sampled_from(["apart", "refuses", "joins"]))
@settings(deadline=None)
def test_each_text_is_tokenized_as_if_alone(texts: list[str], request_bytes: int, how: str) -> None:
    """Whatever shares a request, and whether the server can share or not: the ids of single texts."""
    got = ManyTexts(Asked(how), request_bytes=request_bytes).ids(texts)
    assert [ids.tolist() for ids in got] == [ids_of(text) for text in texts]
    assert all(ids.dtype == np.int32 for ids in got)


def test_requests_hold_as_much_as_they_may_and_a_longer_text_goes_alone() -> None:
    """Texts share a request up to its size; whether the server can do that is asked once."""
    asked = Asked()
    many = ManyTexts(asked, request_bytes=6)
    many.ids(["ab"])
    assert asked.contents == ["ab"], "one text needs no list"
    assert many.shares()
    asked.contents.clear()
    many.ids(["ab", "cd", "ef", "gh", "0123456789", "i"])
    assert sorted(asked.contents, key=str) == sorted(
        [["ab", SEAM, "cd", SEAM, "ef", SEAM], "gh", "0123456789", "i"], key=str
    )


def test_a_server_that_dies_while_it_is_tried_is_an_error() -> None:
    """Only a refusal means that lists are not offered; a crash is a crash."""
    with pytest.raises(EngineError, match="gone"):
        ManyTexts(Asked("dies")).ids(["a", "b"])


def test_an_answer_with_other_seams_is_an_error() -> None:
    """A server that kept texts apart and then does not is never believed."""
    asked = Asked()
    many = ManyTexts(asked)
    assert many.shares()
    asked.how = "joins"
    with pytest.raises(EngineError, match="did not keep the texts of one request apart"):
        many.ids(["a", "b"])
