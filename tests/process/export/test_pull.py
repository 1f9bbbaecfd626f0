"""`pytest-ngram corpus pull` from a server that speaks the protocol: what a user types, and what is left."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.corpus import pull, read_corpus
from pytest_ngram.files import locked

MANIFEST, MESSAGES = "/bot/export/v1/manifest", "/bot/export/v1/messages"
NEW = b'{"v":1,"content":"four"}\n{"v":1,"content":"five"}\n'
COMMAND = [sys.executable, "-m", "pytest_ngram.cli"]


def test_a_first_pull(export: Any, puller: Any) -> None:
    """The corpus is there as it was exported, for its owner alone, and can be read as a corpus."""
    done = puller.pull(f"{export.url}/")
    assert done.code == 0, done.err
    assert "updated: 3 rows" in done.out
    assert "nothing was pulled here before" in done.err
    assert [message.content for message in read_corpus(puller.output).messages] == ["one", "two", "три"]
    assert puller.left() == {"chats.jsonl.gz", "chats.jsonl.gz.state.json"}
    for name in puller.left():
        assert stat.S_IMODE((puller.output.parent / name).stat().st_mode) == 0o600
    assert [path for path, _ in export.seen] == [MANIFEST, MESSAGES]


def test_the_state_says_what_the_file_is(export: Any, puller: Any) -> None:
    """Names, counts and hashes of what was pulled; a server without an ETag leaves null."""
    export.etag = None
    puller.pull(export.url)
    state = puller.state()
    file = puller.output.read_bytes()
    assert state.pop("pulled_at").endswith("+00:00")
    assert state == {
        "schema": 1,
        "base": export.url,
        "content_id": export.manifest["content_id"],
        "etag": None,
        "rows": 3,
        "bytes": len(export.body),
        "sha256": hashlib.sha256(export.body).hexdigest(),
        "file_bytes": len(file),
        "file_sha256": hashlib.sha256(file).hexdigest(),
    }


def test_the_same_content_is_not_asked_for(export: Any, puller: Any) -> None:
    """The same content_id: exit code 3, one request, nothing written."""
    puller.pull(export.url)
    before = puller.output.stat()
    export.seen.clear()
    done = puller.pull(export.url)
    assert (done.code, done.err) == (3, "")
    assert "unchanged since" in done.out
    assert [path for path, _ in export.seen] == [MANIFEST]
    assert puller.output.stat().st_mtime_ns == before.st_mtime_ns


def test_304_is_unchanged(export: Any, puller: Any) -> None:
    """Another content_id, and the server says by the ETag that the body is what is held."""
    puller.pull(export.url)
    etag = export.etag
    export.manifest["content_id"] = "renamed"
    done = puller.pull(export.url)
    assert done.code == 3
    assert export.seen[-1][0] == MESSAGES
    assert export.seen[-1][1]["If-None-Match"] == etag


def test_new_content_takes_the_place_of_the_old(export: Any, puller: Any) -> None:
    """Exit code 0, the new rows, and the new state."""
    puller.pull(export.url)
    export.put(NEW)
    done = puller.pull(export.url)
    assert (done.code, done.err) == (0, "")
    assert puller.text() == NEW
    assert puller.state()["content_id"] == export.manifest["content_id"]


@pytest.mark.parametrize(
    "damage", ["changed", "gone", "cut", "state gone", "state damaged", "state of later"]
)
def test_what_is_not_whole_is_pulled_again(export: Any, puller: Any, damage: str) -> None:
    """A file that is not what the state says is no reason to say `unchanged`, nor to send an ETag."""
    puller.pull(export.url)
    state = puller.output.with_name("chats.jsonl.gz.state.json")
    whole = puller.output.read_bytes()
    if damage == "changed":
        puller.output.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "cut":
        puller.output.write_bytes(whole[:-1])
    elif damage == "gone":
        puller.output.unlink()
    elif damage == "state gone":
        state.unlink()
    else:
        state.write_text("{" if damage == "state damaged" else '{"schema": 2}')
    done = puller.pull(export.url)
    assert done.code == 0
    assert "all of it is asked for" in done.err
    assert "If-None-Match" not in export.seen[-1][1]
    assert puller.output.read_bytes() == whole
    assert puller.pull(export.url).code == 3


def test_another_server_is_another_content(export: Any, serve: Callable[..., Any], puller: Any) -> None:
    """Names of one server say nothing about another: its content is pulled, even under the same id."""
    puller.pull(export.url)
    other = serve()
    other.put(NEW)
    other.manifest["content_id"] = export.manifest["content_id"]
    done = puller.pull(other.url)
    assert done.code == 0
    assert "another address" in done.err
    assert puller.text() == NEW


def test_an_export_without_rows(export: Any, puller: Any) -> None:
    """No rows where none are announced is an update like others."""
    export.put(b"")
    done = puller.pull(export.url)
    assert done.code == 0
    assert "0 rows" in done.out
    assert puller.text() == b""


def test_an_export_in_several_gzip_members(export: Any, puller: Any) -> None:
    """A server may append members: all of them are read, blank lines and a byte order mark are no rows."""
    rows = [b'\xef\xbb\xbf{"v":1,"content":"a"}\r\n\n', b'{"v":1,"content":"b"}']
    export.put_plain(b"".join(map(gzip.compress, rows)), rows=2)
    assert puller.pull(export.url).code == 0
    assert puller.text() == b"".join(rows)


def test_of_two_pulls_one_works(export: Any, puller: Any) -> None:
    """Of two at a time one pulls; the other waits, and finds that nothing changed."""
    export.once(MESSAGES, export.fail.slow)
    command = [*COMMAND, *puller.arguments(export.url)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert sorted(process.wait(timeout=60) for process in running) == [0, 3]
    assert export.asked(MESSAGES) == 1


def test_a_pull_that_does_not_end(export: Any, puller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another pull of the same file is waited for, and then named as what is in the way."""
    monkeypatch.setattr(pull, "_LOCK_TIMEOUT_S", 0.1)
    with locked(puller.output.with_name("chats.jsonl.gz.lock"), 1.0):
        done = puller.pull(export.url)
    assert done.code == 1
    assert "another pull of chats.jsonl.gz is at work" in done.err
    assert export.seen == []


def test_what_a_killed_pull_left_is_removed(export: Any, puller: Any) -> None:
    """A half file of a pull that was killed goes with the next one."""
    leftover = puller.output.with_name("chats.jsonl.gz.abc.tmp")
    leftover.write_bytes(b"half")
    puller.pull(export.url)
    assert puller.left() == {"chats.jsonl.gz", "chats.jsonl.gz.state.json"}


@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
def test_ctrl_c(export: Any, puller: Any, wait_for: Callable[..., None], where: str) -> None:
    """Ctrl-C ends a pull at once with exit code 130; the file is as it was, and nothing lies beside it."""
    puller.pull(export.url)
    old = puller.output.read_bytes()
    export.put(NEW)
    export.seen.clear()
    export.for_ever(where, export.fail.drip)
    command = [*COMMAND, *puller.arguments(export.url)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: export.asked(where) == 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "stopped by Ctrl-C\n")
    assert puller.output.read_bytes() == old
    assert puller.left() == {"chats.jsonl.gz", "chats.jsonl.gz.state.json"}


def test_a_folder_that_may_not_be_written(export: Any, puller: Any) -> None:
    """The error names the file and says what to do; nobody was asked."""
    puller.output = Path("/sys/chats.jsonl.gz")
    done = puller.pull(export.url)
    assert done.code == 1
    assert "CorpusError: chats.jsonl.gz cannot be written" in done.err
    assert "a folder that you may write into" in done.err
    assert export.seen == []


def test_a_folder_that_is_not_there(export: Any, puller: Any) -> None:
    """No folder is made by mistake."""
    puller.output = puller.folder / "dta" / "chats.jsonl.gz"
    done = puller.pull(export.url)
    assert done.code == 1
    assert "make the folder first" in done.err
    assert not puller.output.parent.exists()


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from pytest_ngram import cli
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("size", [1000, 30_100, 61_000])
def test_no_room(export: Any, puller: Any, size: int) -> None:
    """Where a file cannot grow any further, the old corpus stays, with the state that fits it."""
    puller.pull(export.url)
    old, state = puller.output.read_bytes(), puller.state()
    export.put(b'{"v":1,"content":"' + os.urandom(30_000).hex().encode() + b'"}\n')
    assert 30_100 < len(export.body) < 61_000
    command = [sys.executable, "-c", LIMITED, str(size), *puller.arguments(export.url)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if size > len(export.body):
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert "chats.jsonl.gz cannot be written" in done.stderr
    assert "File too large" in done.stderr
    assert (puller.output.read_bytes(), puller.state()) == (old, state)
    assert puller.left() == {"chats.jsonl.gz", "chats.jsonl.gz.state.json"}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("chats.jsonl", "chats.jsonl.gz"),
        ("folder.gz", "no regular file"),
        ("link.gz", "chats.jsonl.gz itself"),
    ],
)
def test_a_name_that_cannot_be_taken(export: Any, puller: Any, name: str, what: str) -> None:
    """The file is gzip and is called so; what is there and no file is not replaced."""
    (puller.output.parent / "folder.gz").mkdir()
    (puller.output.parent / "link.gz").symlink_to(puller.output)
    puller.output = puller.output.with_name(name)
    done = puller.pull(export.url)
    assert done.code == 1
    assert what in done.err
    assert export.seen == []


def test_proxies_of_the_environment_are_not_followed(
    export: Any, puller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token goes to the named host, whatever the environment says."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert puller.pull(export.url).code == 0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that nobody has signed, and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    path = tmp_path / "server.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*made, "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
    with path.open("ab") as file:
        file.write(Path(f"{path}.crt").read_bytes())
    return path


def test_https(
    serve: Callable[..., Any], certificate: Path, puller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that is not trusted ends the pull at once, unasked; SSL_CERT_FILE makes it trusted."""
    export = serve(certificate)
    done = puller.pull(export.url)
    assert done.code == 1
    assert "certificate is not trusted" in done.err
    assert "attempt" not in done.err
    assert export.seen == []
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    assert puller.pull(export.url).code == 0
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.gone")
    done = puller.pull(export.url)
    assert done.code == 1
    assert "SSL_CERT_FILE" in done.err


def test_a_redirect_to_https_is_checked_too(
    export: Any, serve: Callable[..., Any], certificate: Path, puller: Any
) -> None:
    """A certificate counts wherever https is spoken, also where the first address was http."""
    other = serve(certificate)
    export.for_ever(MESSAGES, export.fail.redirect(f"{other.url}/export/v1/messages"))
    done = puller.pull(export.url)
    assert done.code == 1
    assert "certificate is not trusted" in done.err
    assert other.seen == []


@pytest.mark.parametrize("host", ["nosuch.invalid", "a..b", "a" * 70 + ".example", "xn--", "[::1", "%41"])
def test_a_host_that_cannot_be(puller: Any, host: str) -> None:
    """Whatever is wrong with a name is an error like others."""
    done = puller.pull(f"https://{host}/x", "--retries", "0", "--timeout", "5")
    assert done.code == 1
    assert "CorpusError: " in done.err
    assert "to do: " in done.err
