"""The corpus reader: every line is accounted for, and what cannot be read says so."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_ngram.corpus import read_corpus
from pytest_ngram.errors import CorpusError


def line(content: object = "Hello", **more: object) -> bytes:
    return json.dumps({"v": 1, "session": "a", "role": "user", "content": content, **more}).encode() + b"\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


BAD = {
    "not JSON": [b"{", b"hello", b'{"v":1,"content":"a"} x', b"[" * 5000],
    "lone surrogate": [b'{"v":1,"content":"\\ud800"}', b'{"v":1,"content":"a\\udc00\\ud800b"}'],
    "not UTF-8": [
        b'{"v":1,"content":"\xff"}',
        "Привет".encode("cp1251"),
        b'{"v":1,"content":"\xed\xa0\x80"}',
    ],
    "not an object": [b"[1]", b'"text"', b"null", b"12"],
    "no v": [b'{"content":"a"}', b"{}"],
    "unknown v": [b'{"v":2,"content":"a"}', b'{"v":"1","content":"a"}', b'{"v":true,"content":"a"}'],
    "no content": [b'{"v":1,"role":"user"}'],
    "content is not text": [b'{"v":1,"content":null}', b'{"v":1,"content":["a"]}'],
    "role is not text": [b'{"v":1,"content":"a","role":3}'],
}
BAD_LINES = [(reason, bad) for reason, lines in BAD.items() for bad in lines]


@pytest.mark.parametrize(("reason", "bad"), BAD_LINES, ids=[f"{r}: {b[:20]!r}" for r, b in BAD_LINES])
def test_a_line_that_cannot_be_used_is_named(corpus: Path, reason: str, bad: bytes) -> None:
    """By default an error with its number and reason; counted on request; never dropped silently."""
    corpus.write_bytes(line("one") + bad + b"\n" + line("three"))
    with pytest.raises(CorpusError) as caught:
        read_corpus(corpus)
    assert "1 of 3 rows" in caught.value.cause
    assert "first line 2" in caught.value.cause
    assert f"{reason}: 1, first in line 2" in caught.value.checked

    counted = read_corpus(corpus, on_bad="count")
    assert [m.content for m in counted.messages] == ["one", "three"]
    assert [m.line for m in counted.messages] == [1, 3]
    assert {r: (s.count, s.first_lines) for r, s in counted.report.rejected.items()} == {reason: (1, (2,))}


def test_many_bad_lines_give_totals_and_the_first_numbers(corpus: Path) -> None:
    """The error counts all bad lines by reason and names the first five of each."""
    corpus.write_bytes(b"{\n" * 7 + line() + b"[]\n" * 2)
    with pytest.raises(CorpusError) as caught:
        read_corpus(corpus)
    assert "9 of 10 rows" in caught.value.cause
    assert "not JSON: 7, first in line 1, 2, 3, 4, 5" in caught.value.checked
    assert "not an object: 2, first in line 9, 10" in caught.value.checked


@pytest.mark.parametrize(
    "text", [b'{"messages":[{"role":"user","content":"a"}]}\n', b'{"role":"user","content":"a"}\n', b"\n"]
)
def test_an_error_shows_a_line_that_would_do(corpus: Path, text: bytes) -> None:
    """Whoever has another format sees one line of ours, and which keys are needed; that line can be read."""
    for content in (text, text + line()):
        corpus.write_bytes(content)
        if content.strip() == line().strip():
            continue
        with pytest.raises(CorpusError) as caught:
            read_corpus(corpus)
        assert "`v` and `content` are needed" in caught.value.fix
        example = caught.value.fix.partition("such as ")[2].partition(";")[0]
        corpus.write_text(example)
        assert [message.role for message in read_corpus(corpus).messages] == ["assistant"]


LINES = st.sampled_from(
    [line(), line("Ответ", role="assistant"), line(""), b"\n", b" \r\n", b"{\n", b"[]\n", line(v=2), line(3)]
)


@given(st.lists(LINES, max_size=12))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_is_accounted_for(corpus: Path, lines: list[bytes]) -> None:
    """Used, filtered for a reason or rejected for a reason: these sum to the lines of the file."""
    corpus.write_bytes(line("the one", role="assistant") + b"".join(lines))
    report = read_corpus(corpus, frozenset({"assistant"}), on_bad="count").report
    assert report.used + sum(report.filtered.values()) + report.n_rejected == report.rows
    assert report.rows == len(lines) + 1
    assert sum(report.per_role.values()) == report.used


def test_plain_and_gzip_are_the_same_corpus(tmp_path: Path) -> None:
    """The hash is of the uncompressed bytes, and a gzip file is known by its first bytes too."""
    data = line("Hello") + line("Привет, мир")
    names = {"a.jsonl": data, "a.jsonl.gz": gzip.compress(data), "zipped.jsonl": gzip.compress(data)}
    for name, stored in names.items():
        (tmp_path / name).write_bytes(stored)
        corpus = read_corpus(tmp_path / name)
        assert corpus.report.sha256 == hashlib.sha256(data).hexdigest()
        assert corpus.report.size_bytes == len(data)
        assert [m.content for m in corpus.messages] == ["Hello", "Привет, мир"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_line_ends_do_not_matter(corpus: Path, end: bytes) -> None:
    """A last line without its end is whole, Windows ends and a byte order mark are harmless."""
    corpus.write_bytes(b"\xef\xbb\xbf" + line("one").replace(b"\n", b"\r\n") + line("two").rstrip() + end)
    assert [m.content for m in read_corpus(corpus).messages] == ["one", "two"]


def test_unknown_keys_are_allowed_and_others_may_be_missing(corpus: Path) -> None:
    """Only v and content are needed; what an exporter adds is ignored."""
    corpus.write_bytes(line(tokens=[1, 2], model={"name": "x"}) + b'{"v":1,"content":"bare"}\n')
    messages = read_corpus(corpus).messages
    assert [(m.role, m.session) for m in messages] == [("user", "a"), ("(none)", "")]


def test_roles_select(corpus: Path) -> None:
    """Only the roles that were asked for are kept; the others are counted."""
    corpus.write_bytes(line("q") + line("a", role="assistant") + line("t", role="tool"))
    report = read_corpus(corpus, frozenset({"assistant", "tool"})).report
    assert (report.per_role, report.filtered) == ({"assistant": 1, "tool": 1}, {"another role": 1})


EMPTY: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "no bytes": (b"", {}, "0 rows"),
    "blank lines": (b"\n\n", {}, "2 blank"),
    "empty contents": (line("") * 3, {}, "3 empty"),
    "all bad": (b"{\n{\n", {"on_bad": "count"}, "2 not JSON"),
    "no such role": (line(), {"roles": frozenset({"assistant"})}, "roles that were not asked for: 1 user"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_corpus_without_a_message_is_an_error(corpus: Path, name: str) -> None:
    """An empty corpus never becomes an empty table; the error says where the lines went."""
    data, arguments, expected = EMPTY[name]
    corpus.write_bytes(data)
    with pytest.raises(CorpusError, match="no message") as caught:
        read_corpus(corpus, **arguments)
    checked = "\n".join(caught.value.checked)
    assert expected in checked
    assert ("roles that were not asked for" in checked) == (name == "no such role")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    """The path that was looked at is in the error."""
    for path, cause in [(tmp_path / "none.jsonl", "is not there"), (tmp_path, "is a folder")]:
        with pytest.raises(CorpusError, match=cause) as caught:
            read_corpus(path)
        assert str(path) in caught.value.checked[0]


ZIPPED = gzip.compress(b"".join(line(f"message {i * 7919 % 1009}") for i in range(400)))
BROKEN = {
    "cut off": ZIPPED[:-20],
    "cut in the middle": ZIPPED[: len(ZIPPED) // 2],
    "only a magic": ZIPPED[:2],
    "no bytes": b"",
    "wrong checksum": ZIPPED[:-8] + b"\0\0\0\0" + ZIPPED[-4:],
    "damaged": ZIPPED[:200] + b"\xff" * 50 + ZIPPED[250:],
    "text after it": ZIPPED + b"text",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_gzip_file_is_an_error(tmp_path: Path, name: str) -> None:
    """Half a corpus is never taken for a whole one."""
    path = tmp_path / "chat.jsonl.gz"
    path.write_bytes(BROKEN[name])
    with pytest.raises(CorpusError, match="cut off or damaged") as caught:
        read_corpus(path, on_bad="count")
    assert re.match(r"\d+ rows, \d+ bytes were read before it: ", caught.value.checked[1])
    assert caught.value.fix


def test_a_gz_that_is_no_gzip_is_named_as_that(tmp_path: Path) -> None:
    """It is not damaged: somebody unpacked it, or never packed it."""
    path = tmp_path / "chat.jsonl.gz"
    path.write_bytes(line())
    with pytest.raises(CorpusError, match="has the name of a gzip file and is none") as caught:
        read_corpus(path)
    assert "rename it without .gz" in caught.value.fix


def test_a_cut_gzip_file_tells_how_many_rows_came_before(tmp_path: Path) -> None:
    """What was in it until then is counted, but for the last rows, which were still being unpacked."""
    path = tmp_path / "chat.jsonl.gz"
    packed = gzip.compress(line("x" * 10_000) * 100, compresslevel=0)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorpusError, match="cut off or damaged") as caught:
        read_corpus(path)
    n_rows = int(caught.value.checked[1].split()[0])
    assert 30 <= n_rows <= 50
