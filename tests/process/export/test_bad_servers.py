"""A server that misbehaves: what is tried again, what is not, and that nothing here is harmed by it."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyrage
import pytest

from pytest_ngram.corpus import read_corpora
from pytest_ngram.corpus.export_limits import Limits
from pytest_ngram.corpus.pull import Wanted, pull
from pytest_ngram.errors import CorpusError

MANIFEST, MESSAGES = "/bot/export/v1/manifest", "/bot/export/v1/messages"
NEW = b'{"v":1,"content":"four"}\n{"v":1,"content":"five"}\n'
BAD_ROW = b'{"v":1,"content":"a"}\n{"v":1,"secret-of-a-chat":"b"}\n{"v":1,"content":"c"}\n'
QUICK = Limits(silence_s=2.0, total_s=30.0, retries=2, first_pause_s=0.02, longest_pause_s=2.0)


@pytest.fixture
def quick(puller: Any) -> Callable[..., list[str]]:
    """Pull with short pauses; returns what was told on the way."""

    def call(url: str, **limits: float) -> list[str]:
        told: list[str] = []
        changed = dataclasses.replace(QUICK, **limits)  # type: ignore[arg-type]
        pull(Wanted(url, puller.output, puller.token_file, puller.identity_file, changed), told.append)
        return told

    return call


@pytest.fixture
def held(export: Any, puller: Any) -> Callable[[], bool]:
    """A pull went well before; tells whether all of it is as it was then."""
    assert puller.pull(export.url).code == 0
    old, state = puller.output.read_bytes(), puller.state()
    names = puller.left()
    export.seen.clear()
    export.put(NEW)

    def as_it_was() -> bool:
        return (puller.output.read_bytes(), puller.state(), puller.left()) == (old, state, names)

    return as_it_was


@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
@pytest.mark.parametrize(
    "answer",
    [
        (401, "check the token file"),
        (403, "may not read it"),
        (404, "check the address"),
        (418, "ask whoever runs the export"),
        (429, "ask whoever runs the export"),
        (204, "with 204 No Content"),
        (304, "with 304 Not Modified"),
    ],
)
def test_an_answer_that_does_not_pass(
    export: Any, puller: Any, held: Callable[[], bool], where: str, answer: tuple[int, str]
) -> None:
    """What another attempt cannot mend is asked for once, and told with what to do."""
    status, what = answer
    if (where, status) == (MESSAGES, 304):
        puller.output.with_name("chats.jsonl.gz.state.json").unlink()  # no ETag is sent, and 304 comes
    export.for_ever(where, export.fail.status(status))
    done = puller.pull(export.url)
    assert done.code == 1
    assert done.out == ""
    assert f"the server answered GET {where.removeprefix('/bot')} with {status}" in done.err
    assert what in done.err
    assert export.asked(where) == 1
    if (where, status) != (MESSAGES, 304):
        assert held()


def test_500_once(export: Any, puller: Any, held: Callable[[], bool]) -> None:
    """Each request is sent again after an error of the server, and the user is told."""
    export.once(MANIFEST, export.fail.status(500))
    export.once(MESSAGES, export.fail.status(503))
    done = puller.pull(export.url)
    assert done.code == 0
    assert re.search(r"with 500 Internal Server Error; attempt 2 of 5 in (0\.[5-9]|1\.0) s\n", done.err)
    assert re.search(r"with 503 Service Unavailable; attempt 2 of 5 in (0\.[5-9]|1\.0) s\n", done.err)
    assert puller.text() == NEW
    assert not held()


@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
def test_500_always(
    export: Any, quick: Callable[..., list[str]], held: Callable[[], bool], where: str
) -> None:
    """Attempts are counted, and end."""
    export.for_ever(where, export.fail.status(500))
    with pytest.raises(CorpusError, match="with 500") as caught:
        quick(export.url)
    assert caught.value.checked == (export.url, "attempts: 3")
    assert export.asked(where) == 3
    assert held()


def test_nobody_listens(serve: Callable[..., Any], quick: Callable[..., list[str]]) -> None:
    """A server that is not there may come back: it is asked again, and then told."""
    gone = serve()
    gone.close()
    with pytest.raises(CorpusError, match=r"the connection broke: .*refused") as caught:
        quick(gone.url)
    assert caught.value.checked == (gone.url, "attempts: 3")


@pytest.mark.parametrize("fault", ["cut", "no_http", "hang"])
def test_a_broken_transfer_once(
    export: Any, puller: Any, quick: Callable[..., list[str]], fault: str
) -> None:
    """A transfer that breaks off or falls silent starts anew, from its first byte."""
    export.once(MESSAGES, getattr(export.fail, fault))
    told = quick(export.url, silence_s=0.5)
    assert "attempt 2 of 3" in told[1]
    assert puller.text().count(b"\n") == 3


@pytest.mark.parametrize("fault", ["cut", "no_http", "hang"])
@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
def test_a_broken_transfer_always(
    export: Any,
    quick: Callable[..., list[str]],
    held: Callable[[], bool],
    where: str,
    fault: str,
) -> None:
    """The same for ever ends with an error after the last attempt."""
    export.for_ever(where, getattr(export.fail, fault))
    with pytest.raises(CorpusError, match=r"the connection broke|nothing came for"):
        quick(export.url, silence_s=0.5)
    assert export.asked(where) == 3
    assert held()


@pytest.mark.parametrize("fault", ["drip", "drip_headers"])
@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
def test_a_slow_drip(
    export: Any,
    quick: Callable[..., list[str]],
    held: Callable[[], bool],
    where: str,
    fault: str,
) -> None:
    """A server that sends a byte now and then is never silent; the time for all ends it, once."""
    export.put_body(b"x" * 100_000)
    export.for_ever(where, getattr(export.fail, fault))
    before_s = time.monotonic()
    with pytest.raises(CorpusError, match="took longer than 1 s"):
        quick(export.url, total_s=1.0)
    assert 0.9 < time.monotonic() - before_s < 10
    assert export.asked(where) == 1
    assert held()


def test_retry_after_is_honoured(export: Any, quick: Callable[..., list[str]]) -> None:
    """A server that asks for a pause gets it."""
    export.once(MANIFEST, export.fail.status(503, Retry_After="1"))
    before_s = time.monotonic()
    told = quick(export.url)
    assert "in 1.0 s" in told[1]
    assert time.monotonic() - before_s >= 1


@pytest.mark.parametrize("limits", [{}, {"longest_pause_s": 9999.0}])
def test_retry_after_beyond_patience(
    export: Any, quick: Callable[..., list[str]], limits: dict[str, float]
) -> None:
    """A server that asks for more than is waited for, or is left, is told, not waited for."""
    export.once(MANIFEST, export.fail.status(503, Retry_After="3600"))
    with pytest.raises(CorpusError, match="with 503") as caught:
        quick(export.url, **limits)
    assert caught.value.checked == (export.url, "the next attempt would be in 3600 s: too late")


def test_the_body_changed_once(
    export: Any, puller: Any, quick: Callable[..., list[str]], held: Callable[[], bool]
) -> None:
    """Content that changes between manifest and messages is pulled from the new manifest."""
    newest = NEW + b'{"v":1,"content":"six"}\n'
    export.once(MESSAGES, export.fail.changed(newest))
    told = quick(export.url)
    assert "not those of the manifest" in told[0]
    assert [path for path, _ in export.seen] == [MANIFEST, MESSAGES] * 2
    assert puller.text() == newest
    assert puller.state()["content_id"] == export.manifest["content_id"]
    assert not held()


def test_the_body_changes_always(
    export: Any, quick: Callable[..., list[str]], held: Callable[[], bool]
) -> None:
    """Twice is enough."""
    export.once(MESSAGES, export.fail.changed(NEW * 2), export.fail.changed(NEW * 3))
    with pytest.raises(CorpusError, match="not those of the manifest, twice"):
        quick(export.url)
    assert [path for path, _ in export.seen] == [MANIFEST, MESSAGES] * 2
    assert held()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (lambda body: body[:-1] + bytes([body[-1] ^ 1]), "another SHA-256"),
        (lambda body: body[:-1], "were announced, and"),
        (lambda body: body + b"x", "and more came"),
        (lambda body: b"", "and 0 came"),
    ],
    ids=["a bit", "shorter", "longer", "empty"],
)
def test_a_body_that_is_not_the_manifests(
    export: Any,
    quick: Callable[..., list[str]],
    held: Callable[[], bool],
    body: Callable[[bytes], bytes],
    what: str,
) -> None:
    """Other bytes, fewer or more than announced are never decrypted, let alone kept."""
    export.for_ever(MESSAGES, export.fail.body(body(export.body)))
    with pytest.raises(CorpusError, match="not those of the manifest, twice") as caught:
        quick(export.url)
    assert what in caught.value.checked[0]
    assert held()


def test_no_more_than_announced_is_read(export: Any, quick: Callable[..., list[str]]) -> None:
    """A body without an end is left as soon as it is longer than the manifest says."""
    export.put_body(b"x" * 10)
    export.for_ever(MESSAGES, export.fail.drip)
    with pytest.raises(CorpusError, match="not those of the manifest, twice"):
        quick(export.url)


@pytest.mark.parametrize(
    ("manifest", "what"),
    [
        (b"<html>log in</html>", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"more":' + b"[" * 60_000, "it is not JSON"),
        (b"[]", "Expected `object`"),
        (b"x" * 70_000, "longer than 65536 bytes"),
        ({"rows": None}, "`$.rows`"),
        ({"rows": 1.5}, "`$.rows`"),
        ({"rows": -1}, "rows is below 0"),
        ({"bytes": 0}, "bytes below 1"),
        ({"bytes": "12"}, "`$.bytes`"),
        ({"sha256": "abc"}, "64 hexadecimal digits"),
        ({"sha256": "g" * 64}, "64 hexadecimal digits"),
        ({"content_id": ""}, "content_id is not"),
        ({"content_id": "\x1b[2J"}, "content_id is not"),
        ({"content_id": "x" * 1001}, "content_id is not"),
        *(
            ({name: ...}, f"missing required field `{name}`")
            for name in ("content_id", "rows", "bytes", "sha256")
        ),
    ],
)
def test_a_manifest_that_cannot_be_used(
    export: Any,
    quick: Callable[..., list[str]],
    held: Callable[[], bool],
    manifest: bytes | dict[str, Any],
    what: str,
) -> None:
    """What is wrong is named, by field; the messages are not asked for, nor the manifest again."""
    if isinstance(manifest, dict):
        whole = {**export.manifest, **manifest}
        manifest = json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()
    export.for_ever(MANIFEST, export.fail.body(manifest))
    with pytest.raises(CorpusError, match="manifest cannot be used") as caught:
        quick(export.url)
    assert what in caught.value.checked[0]
    assert [path for path, _ in export.seen] == [MANIFEST]
    assert held()


def test_a_wrong_key(
    export: Any, puller: Any, quick: Callable[..., list[str]], held: Callable[[], bool]
) -> None:
    """A body for somebody else's key is told as such, and not asked for again."""
    puller.secret("key.txt", str(pyrage.x25519.Identity.generate()))
    with pytest.raises(CorpusError, match="cannot be decrypted") as caught:
        quick(export.url)
    assert "No matching keys found" in caught.value.checked[0]
    assert export.asked(MESSAGES) == 1
    assert held()


def test_one_of_several_identities(export: Any, puller: Any, quick: Callable[..., list[str]]) -> None:
    """A file may hold old keys beside the one that fits."""
    keys = [pyrage.x25519.Identity.generate(), puller.identity, pyrage.x25519.Identity.generate()]
    puller.secret("key.txt", "".join(f"\n# {n}\n{key}\n" for n, key in enumerate(keys)))
    quick(export.url)
    assert puller.output.exists()


@pytest.mark.parametrize("kind", ["garbage", "short", "plain gzip", "cut", "a bit"])
def test_a_ciphertext_that_is_none(
    export: Any, quick: Callable[..., list[str]], held: Callable[[], bool], kind: str
) -> None:
    """What age cannot read, whole or in part, leaves nothing, though its hash is right."""
    body = export.body
    bodies = {
        "garbage": bytes(5000),
        "short": b"age",
        "plain gzip": gzip.compress(NEW),
        "cut": body[:-20],
        "a bit": body[:-20] + bytes([body[-20] ^ 1]) + body[-19:],
    }
    export.put_body(bodies[kind])
    with pytest.raises(CorpusError, match="cannot be decrypted"):
        quick(export.url)
    assert held()


# What is encrypted, how many rows are announced, and what the error says.
CONTENTS = {
    "no gzip": (NEW, 2, "is no gzip file"),
    "nothing": (b"", 0, "is no gzip file"),
    "a cut gzip": (gzip.compress(NEW)[:-9], 2, "cut off or damaged"),
    "more behind the gzip": (gzip.compress(NEW) + b"more", 2, "cut off or damaged"),
    "fewer rows": (gzip.compress(NEW), 3, "3 rows are told, and there are 2"),
    "more rows": (gzip.compress(NEW), 1, "1 rows are told, and there are more"),
    "a bad row": (gzip.compress(BAD_ROW), 3, "1 of 3 lines of the export cannot be used, first line 2"),
    "why": (gzip.compress(BAD_ROW), 3, "no content: 1, first in line 2"),
    "many": (gzip.compress(b"chats of mine\n" * 8), 8, "not JSON: 8, first in line 1, 2, 3, 4, 5\n"),
    "not UTF-8": (gzip.compress(b'{"v":1,"content":"\xff"}'), 1, "not UTF-8: 1, first in line 1"),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_content_that_is_no_corpus(
    export: Any, quick: Callable[..., list[str]], held: Callable[[], bool], kind: str
) -> None:
    """Every row is checked before anything is kept; an error has line numbers and reasons, and no text."""
    plain, rows, what = CONTENTS[kind]
    export.put_plain(plain, rows=rows)
    with pytest.raises(CorpusError) as caught:
        quick(export.url)
    assert what in str(caught.value)
    assert "secret-of-a-chat" not in str(caught.value)
    assert "mine" not in str(caught.value)
    assert export.asked(MESSAGES) == 1
    assert held()


@pytest.mark.parametrize("row", [b"\n", b'{"v":1,"content":""}\n', b" "], ids=["lines", "rows", "a line"])
def test_a_gzip_bomb(
    export: Any, quick: Callable[..., list[str]], held: Callable[[], bool], row: bytes
) -> None:
    """Some kB that unpack to 20 MB are left at the limit: of blank lines, of rows, of one endless line."""
    bomb = gzip.compress(row * (20_000_000 // len(row)))
    assert len(bomb) < 100_000
    export.put_plain(bomb, rows=10_000_000)
    with pytest.raises(CorpusError, match="unpacks to more than is allowed"):
        quick(export.url, max_bytes=1_000_000)
    assert held()


def test_rows_bound_a_bomb(export: Any, quick: Callable[..., list[str]]) -> None:
    """More rows than announced are not read."""
    export.put(NEW * 100_000, rows=10)
    with pytest.raises(CorpusError) as caught:
        quick(export.url)
    assert caught.value.checked == ("10 rows are told, and there are more",)


def test_a_line_without_an_end(export: Any, puller: Any, quick: Callable[..., list[str]]) -> None:
    """A row is held in memory as long as it may be, and no longer; it is told by its number, and kept."""
    export.put(NEW + b'{"v":1,"content":"' + b"a" * 200_000_000 + b'"}\n' + NEW)
    tracemalloc.start()
    try:
        told = quick(export.url)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000_000
    assert told[-1].startswith("longer than 32 MB: 1, first in line 3: kept as they came")
    assert puller.state()["rows"] == 5


def test_a_long_row_beside_a_bad_one(export: Any, quick: Callable[..., list[str]]) -> None:
    """Another bad row stops the pull as ever, and is found behind a row that is too long."""
    export.put(b"a" * 33_000_000 + b"\n" + BAD_ROW)
    with pytest.raises(CorpusError, match="1 of 4 lines of the export cannot be used, first line 3"):
        quick(export.url)


def test_a_table_is_built_around_a_long_row(export: Any, puller: Any) -> None:
    """What is pulled with exit code 0 can be used: `table build` tells the same row, and goes on if asked."""
    export.put(NEW + b'{"v":1,"content":"' + b"a" * 33_000_000 + b'"}\n' + NEW)
    done = puller.pull(export.url)
    assert done.code == 0
    assert "updated: 5 rows" in done.out
    assert "longer than 32 MB: 1, first in line 3" in done.err
    with pytest.raises(CorpusError, match="first line 3") as caught:
        read_corpora([puller.output])
    assert "longer than 32 MB: 1, first in line 3" in caught.value.checked
    corpora = read_corpora([puller.output], on_bad="count")
    assert [message.content for message in corpora.messages] == ["four", "five"] * 2
    assert corpora.reports[0].n_rejected == 1


def test_an_export_larger_than_allowed(export: Any, quick: Callable[..., list[str]]) -> None:
    """The announced size is compared before anything is loaded."""
    with pytest.raises(CorpusError, match="larger than allowed"):
        quick(export.url, max_bytes=len(export.body) - 1)
    assert export.asked(MESSAGES) == 0


def test_a_body_that_was_encoded(export: Any, quick: Callable[..., list[str]]) -> None:
    """A proxy before the server that compresses once more is named as what is wrong."""
    body = gzip.compress(export.body)
    export.for_ever(MESSAGES, export.fail.body(body, Content_Encoding="gzip"))
    with pytest.raises(CorpusError, match="encoded GET /export/v1/messages once more"):
        quick(export.url)
