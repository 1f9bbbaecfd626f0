"""Choosing messages: filters, duplicates, several files, plain text, and a sample that can be drawn again."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_ngram.corpus import Corpora, Selection, balance, parse_time, read_corpora, rows
from pytest_ngram.errors import CorpusError


def row(content: object = "Hello", **more: object) -> str:
    return json.dumps({"v": 1, "content": content, **more}) + "\n"


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


def contents(corpora: Corpora) -> list[str]:
    return [message.content for message in corpora.messages]


def test_each_filter_keeps_what_it_names_and_counts_the_rest(tmp_path: Path) -> None:
    """The first filter that leaves a row out is the one that counts it."""
    path = write(
        tmp_path / "a.jsonl",
        row("kept", role="user", session="s", ts="2026-01-15T00:00:00Z"),
        row("its role", role="tool", session="s", ts="2026-01-15T00:00:00Z"),
        row("its session", role="user", session="t", ts="2026-01-15T00:00:00Z"),
        row("no time", role="user", session="s"),
        row("too early", role="user", session="s", ts="2026-01-09T23:59:59Z"),
        row("too late", role="user", session="s", ts="2026-01-20T00:00:00Z"),
        row("", role="user", session="s", ts="2026-01-15T00:00:00Z"),
        row("abc", role="user", session="s", ts="2026-01-15T00:00:00Z"),
        row("", role="tool"),
    )
    corpora = read_corpora(
        [path],
        Selection(
            roles=("user",),
            sessions=("s",),
            since=parse_time("2026-01-10", "--since"),
            until=parse_time("2026-01-20", "--until"),
            min_chars=4,
        ),
    )
    assert contents(corpora) == ["kept"]
    assert corpora.reports[0].filtered == {
        "another role": 2,
        "another session": 1,
        "no ts": 1,
        "another time": 2,
        "empty": 1,
        "too short": 1,
    }


@pytest.mark.parametrize(
    ("ts", "inside"),
    [
        ("2026-01-10", True),
        ("2026-01-09T23:59:59.999Z", False),
        ("2026-01-10T01:30:00+03:00", False),
        ("2026-01-09T22:00:00-03:00", True),
        ("2026-01-19 23:59:59", True),
        ("2026-01-20", False),
        (1768435200, True),  # 2026-01-15T00:00:00Z
        (1768435200.5, True),
        (0, False),
    ],
)
def test_times_are_compared_as_moments(tmp_path: Path, ts: object, inside: bool) -> None:
    """ISO 8601 with or without an offset (UTC then), or Unix seconds; since is included, until is not."""
    path = write(tmp_path / "a.jsonl", row("it", ts=ts), row("other", ts="2026-01-12"))
    chosen = Selection(since=parse_time("2026-01-10", "since"), until=parse_time("2026-01-20", "until"))
    assert ("it" in contents(read_corpora([path], chosen))) == inside


@pytest.mark.parametrize("ts", ["yesterday", "", [2026], {"a": 1}, True, 1e300, "2026-13-01"])
def test_a_ts_that_is_no_time_is_rejected_where_times_are_asked_for(tmp_path: Path, ts: object) -> None:
    """It stops the build, or is counted; where nobody asks for times it is not looked at."""
    path = write(tmp_path / "a.jsonl", row("it", ts=ts), row("other", ts="2026-01-12"))
    assert contents(read_corpora([path])) == ["it", "other"]
    chosen = Selection(since=parse_time("2026-01-10", "since"))
    with pytest.raises(CorpusError, match="1 of 2 rows") as caught:
        read_corpora([path], chosen)
    assert "ts is not a time: 1, first in line 1" in caught.value.checked
    assert contents(read_corpora([path], chosen, on_bad="count")) == ["other"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": ()},
        {"sessions": ()},
        {"min_chars": 0},
        {"max_mb": 0},
        {"max_mb": float("nan")},
        {"max_mb": float("inf")},
        {"since": parse_time("2026-01-02", "a"), "until": parse_time("2026-01-02", "b")},
    ],
    ids=str,
)
def test_a_choice_without_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Nothing could pass such a filter, so it is a slip."""
    with pytest.raises(CorpusError) as caught:
        Selection(**wrong)
    assert next(iter(wrong)) in caught.value.checked[0]


def test_a_time_that_cannot_be_read_is_told_with_what_can() -> None:
    """The option, what was written, and an example."""
    with pytest.raises(CorpusError, match="--since 'last week' is no time") as caught:
        parse_time("last week", "--since")
    assert "2026-01-31" in caught.value.fix


def test_a_row_that_two_exports_share_counts_once(tmp_path: Path) -> None:
    """Same session, number, role and text: one message. The same words elsewhere are said again."""
    one = write(
        tmp_path / "one.jsonl",
        row("yes", session="a", seq=1, role="user"),
        row("yes", session="a", seq=2, role="user"),
        row("yes", session="b", seq=1, role="user"),
        row("no seq", session="a", ts="2026-01-01"),
        row("nothing", role="user", seq=1),
    )
    two = write(
        tmp_path / "two.jsonl",
        row("yes", session="a", seq=2, role="user"),
        row("yes", session="a", seq=2, role="assistant"),
        row("mended", session="a", seq=2, role="user"),
        row("no seq", session="a", ts="2026-01-01"),
        row("no seq", session="a", ts="2026-01-02"),
        row("nothing", role="user", seq=1),
    )
    corpora = read_corpora([one, two])
    assert [report.filtered for report in corpora.reports] == [{}, {"duplicate": 2}]
    assert [report.used for report in corpora.reports] == [5, 4]
    assert {message.file for message in corpora.messages} == {0, 1}


def test_the_same_bytes_twice_are_refused(tmp_path: Path) -> None:
    """Without sessions all would count double, so it is a slip, under whatever name."""
    one, two = (write(tmp_path / name, row("a")) for name in ("one.jsonl", "two.jsonl"))
    with pytest.raises(CorpusError, match="same bytes") as caught:
        read_corpora([one, two])
    assert {str(one), str(two)} <= set(caught.value.checked)


def test_bad_rows_of_several_files_are_told_by_file(tmp_path: Path) -> None:
    """Each file's reasons stand below its path."""
    one = write(tmp_path / "one.jsonl", row("a"), "{\n")
    two = write(tmp_path / "two.jsonl", row("b"), "[]\n", "[1]\n")
    with pytest.raises(CorpusError, match="3 of 5 rows of 2 corpora cannot be used, first line 2") as caught:
        read_corpora([one, two])
    assert caught.value.checked == (
        str(one), "not JSON: 1, first in line 2", str(two), "not an object: 2, first in line 2, 3",
    )  # fmt: skip


ROWS = st.builds(
    row,
    st.sampled_from(["", "a", "bb", "Привет", "a longer one", 7]),
    session=st.sampled_from(["s", "t", None]),
    seq=st.sampled_from([0, 1, None]),
    role=st.sampled_from(["user", "assistant", None]),
    ts=st.sampled_from(["2026-01-01", "2026-02-01", "never", None]),
)
LINES = st.one_of(ROWS, st.sampled_from(["\n", " \r\n", "{\n", "[]\n", '{"v":2,"content":"a"}\n']))
SELECTIONS = st.builds(
    Selection,
    roles=st.sampled_from([None, ("user",)]),
    sessions=st.sampled_from([None, ("s",)]),
    since=st.sampled_from([None, parse_time("2026-01-15", "since")]),
    min_chars=st.sampled_from([1, 2]),
    max_mb=st.sampled_from([None, 1e-5, 3e-5]),
)


@given(files=st.lists(st.lists(LINES, max_size=12), min_size=1, max_size=3), selection=SELECTIONS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_books_always_balance(tmp_path: Path, files: list[list[str]], selection: Selection) -> None:
    """Of every file, by whatever filters: rows = used + filtered + rejected, and used is what is returned."""
    known = row("in all", role="user", session="s", ts="2026-03-01")
    paths = [
        write(tmp_path / f"{i}.jsonl", row(f"only in {i}"), known, *lines) for i, lines in enumerate(files)
    ]
    corpora = read_corpora(paths, selection, on_bad="count")
    for i, (report, lines) in enumerate(zip(corpora.reports, files, strict=True)):
        assert report.rows == len(lines) + 2
        assert report.rows == report.used + sum(report.filtered.values()) + report.n_rejected
        assert report.used == sum(report.per_role.values())
        assert report.used == sum(message.file == i for message in corpora.messages)


TEXTS = st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=30)


@given(texts=TEXTS, seed=st.integers(0, 5), max_bytes=st.integers(9, 60), chance=st.randoms())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sample_is_the_same_in_whatever_order_rows_and_files_come(
    tmp_path: Path, texts: list[str], seed: int, max_bytes: int, chance: random.Random
) -> None:
    """The same texts in another order and cut into other files give the same sample by the same seed."""
    chosen = Selection(max_mb=max_bytes / 1e6, seed=seed)
    whole = read_corpora([write(tmp_path / "whole.jsonl", *map(row, texts))], chosen)
    shuffled = chance.sample(texts, len(texts))
    cut = chance.randint(0, len(texts))
    halves = [shuffled[:cut], shuffled[cut:]]
    paths = [write(tmp_path / f"half{i}.jsonl", *map(row, half), "\n" * i) for i, half in enumerate(halves)]
    again = read_corpora(paths, chosen)
    assert sorted(contents(again)) == sorted(contents(whole))
    assert sum(message.size_bytes for message in whole.messages) <= max_bytes
    left = {text: texts.count(text) - contents(whole).count(text) for text in set(texts)}
    if any(left.values()):
        size = sum(map(len, contents(whole)))
        assert size + max(len(text) for text, count in left.items() if count) > max_bytes, "it is full"


@given(texts=TEXTS, seed=st.integers(0, 5), sizes=st.tuples(st.integers(9, 40), st.integers(9, 40)))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_smaller_sample_is_part_of_a_larger_one(
    tmp_path: Path, texts: list[str], seed: int, sizes: tuple[int, int]
) -> None:
    """So tokens that are known from 4 MB are known in 8 MB."""
    path = write(tmp_path / "a.jsonl", *map(row, texts))
    small, large = (
        sorted(contents(read_corpora([path], Selection(max_mb=size / 1e6, seed=seed))))
        for size in sorted(sizes)
    )
    for text in small:
        large.remove(text)


def test_another_seed_is_another_sample(tmp_path: Path) -> None:
    """Samples differ by seed, keep the order of the rows, and what is left out is counted."""
    texts = [f"message {i:03}" for i in range(100)]
    path = write(tmp_path / "a.jsonl", *map(row, texts))
    drawn = {}
    for seed in (1, 2, 3):
        corpora = read_corpora([path], Selection(max_mb=500e-6, seed=seed))
        assert corpora.reports[0].filtered == {"not in the sample": 100 - len(corpora.messages)}
        assert contents(corpora) == sorted(contents(corpora))
        drawn[seed] = tuple(contents(corpora))
    assert {len(texts) for texts in drawn.values()} == {45}
    assert len(set(drawn.values())) == 3


def test_a_message_larger_than_the_sample_is_passed_over(tmp_path: Path) -> None:
    """One pasted file does not leave an empty sample."""
    path = write(tmp_path / "a.jsonl", row("x" * 1000), row("small"))
    assert contents(read_corpora([path], Selection(max_mb=100e-6))) == ["small"]


def test_a_choice_that_leaves_nothing_says_what_left_it_out(tmp_path: Path) -> None:
    """The reasons stand in the error, and it is not the format that is blamed."""
    path = write(tmp_path / "a.jsonl", row("a"), row("b"))
    with pytest.raises(CorpusError, match="no message") as caught:
        read_corpora([path], Selection(min_chars=5))
    assert "2 too short" in caught.value.checked
    assert "min_chars" in caught.value.fix


def test_a_plain_text_file_is_one_message(tmp_path: Path) -> None:
    """As `llama-lookup-create` reads it, but for the byte order mark."""
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\r\ntwo\n{not JSON}".encode())
    corpora = read_corpora([path], kind="text")
    assert contents(corpora) == ["one\r\n\r\ntwo\n{not JSON}"]
    assert (corpora.reports[0].rows, corpora.reports[0].size_bytes) == (1, path.stat().st_size)


def test_paragraphs_are_what_blank_lines_part(tmp_path: Path) -> None:
    """Each with the line in which it begins; lines of white space part too, line ends at its end go."""
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\nmore\n\n \t\r\ntwo\r\n\r\n\r\nthree".encode())
    corpora = read_corpora([path], kind="paragraphs")
    assert [(m.line, m.content) for m in corpora.messages] == [(1, "one\nmore"), (5, "two"), (8, "three")]


def test_plain_text_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    """The whole file, or the paragraph: never a text with holes in it."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\nb\xffd\n\nfine")
    with pytest.raises(CorpusError, match="1 of 1 rows"):
        read_corpora([path], kind="text")
    with pytest.raises(CorpusError, match="1 of 3 rows") as caught:
        read_corpora([path], kind="paragraphs")
    assert "not UTF-8: 1, first in line 3" in caught.value.checked
    assert contents(read_corpora([path], kind="paragraphs", on_bad="count")) == ["good", "fine"]


@pytest.mark.parametrize(
    "chosen", [{"roles": ("user",)}, {"sessions": ("a",)}, {"since": parse_time("2026-01-01", "since")}]
)
def test_plain_text_cannot_be_chosen_by_what_it_lacks(tmp_path: Path, chosen: dict[str, Any]) -> None:
    """Leaving all of it out as another role's would be true and useless."""
    path = write(tmp_path / "a.txt", "text")
    with pytest.raises(CorpusError, match="plain text has no roles"):
        read_corpora([path], Selection(**chosen), kind="text")


def test_a_row_that_is_too_long_is_passed_over_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rejected with its line, the rows after it keep their numbers, and the hash is of all bytes."""
    monkeypatch.setattr("pytest_ngram.corpus.reader.ROW_LIMIT_BYTES", 64)
    path = write(tmp_path / "a.jsonl", row("a"), row("x" * 500), row("b"), row("y" * 64))
    with pytest.raises(CorpusError, match="2 of 4 rows") as caught:
        read_corpora([path])
    assert f"{rows.TOO_LONG}: 2, first in line 2, 4" in caught.value.checked
    corpora = read_corpora([path], on_bad="count")
    assert [(m.line, m.content) for m in corpora.messages] == [(1, "a"), (3, "b")]
    assert corpora.reports[0].size_bytes == path.stat().st_size
    text = write(tmp_path / "a.txt", "short\n\n", "x" * 50 + "\n" + "y" * 50, "\n\nend")
    assert contents(read_corpora([text], kind="paragraphs", on_bad="count")) == ["short", "end"]
    with pytest.raises(CorpusError, match="1 of 1 rows"):
        read_corpora([write(tmp_path / "line.txt", "a\n", "x" * 500, "\nb")], kind="text")
    with pytest.raises(CorpusError, match="1 of 1 rows") as caught:
        read_corpora([text], kind="text")
    assert "--paragraphs" in caught.value.checked[-1]


def test_a_message_of_50_mb_is_rejected_and_the_rest_is_used(tmp_path: Path) -> None:
    """The limit as it is, with bytes as they are."""
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        file.write('{"v":1,"content":"')
        for _ in range(50):
            file.write("x" * 1_000_000)
        file.write('"}\n' + row("b"))
    corpora = read_corpora([path], on_bad="count")
    assert contents(corpora) == ["b"]
    assert {reason: s.first_lines for reason, s in corpora.reports[0].rejected.items()} == {
        "longer than 32 MB": (1,)
    }


def test_a_pipe_and_a_name_that_is_no_text_will_do(tmp_path: Path) -> None:
    """`<(zcat …)` of a shell cannot be read twice, and a manifest is JSON."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.jsonl.gz"))
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(row("a").encode()),))
    writer.start()
    corpora = read_corpora([path])
    writer.join()
    assert contents(corpora) == ["a"]
    assert corpora.reports[0].name == "bad\\udcff.jsonl.gz"


def test_a_balance_is_said_in_one_line() -> None:
    """Reasons stand behind their sums; what there was none of has none."""
    assert balance(12, 9, {"empty": 2}, {"no v": 1}) == (
        "12 rows = 9 used + 2 filtered (2 empty) + 1 rejected (1 no v)"
    )
    assert balance(1, 1, {}, {}) == "1 rows = 1 used + 0 filtered + 0 rejected"
