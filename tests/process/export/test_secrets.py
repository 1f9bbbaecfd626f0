"""The token, the identity and what people wrote: where they go, and where they never appear."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.corpus.export_limits import Limits
from pytest_ngram.corpus.pull import Wanted, pull
from pytest_ngram.errors import CorpusError

TOKEN = "t0ken-of-the-tests-7f3a"
MANIFEST, MESSAGES = "/bot/export/v1/manifest", "/bot/export/v1/messages"
LIMITS = Limits(silence_s=5.0, total_s=30.0, retries=1, first_pause_s=0.02)


def secrets(puller: Any) -> list[str]:
    return [TOKEN, str(puller.identity), "AGE-SECRET-KEY"]


def everything_said(puller: Any, *said: str) -> str:
    """What was written to a terminal, and every byte that lies in the folder but in the two secret files."""
    files = [path for path in puller.folder.rglob("*") if path.is_file()]
    files = [path for path in files if path not in (puller.token_file, puller.identity_file)]
    return "".join([*said, *(path.read_bytes().decode("latin-1") for path in files)])


def test_nothing_appears_while_a_pull_runs(export: Any, puller: Any, wait_for: Callable[..., None]) -> None:
    """Neither the command line, nor the environment, nor an open file beside the output shows a secret."""
    export.for_ever(MESSAGES, export.fail.hang)
    command = [sys.executable, "-m", "pytest_ngram.cli", *puller.arguments(export.url)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: export.asked(MESSAGES) == 1)
        shown = [Path(f"/proc/{process.pid}/{name}").read_text() for name in ("cmdline", "comm", "environ")]
        said = everything_said(puller, *shown)
        process.terminate()
        said += "".join(process.communicate(timeout=20))
    assert str(puller.token_file) in shown[0]
    assert [secret for secret in secrets(puller) if secret in said] == []


@pytest.mark.parametrize("where", [MANIFEST, MESSAGES])
@pytest.mark.parametrize("fault", ["echo", "no_http"])
def test_a_server_that_repeats_what_was_sent(
    export: Any, puller: Any, caplog: pytest.LogCaptureFixture, where: str, fault: str
) -> None:
    """An error, its traceback and the libraries' own logs have no token, even if a server shows it."""
    export.for_ever(where, getattr(export.fail, fault))
    told: list[str] = []
    wanted = Wanted(export.url, puller.output, puller.token_file, puller.identity_file, LIMITS)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CorpusError) as caught:
        pull(wanted, told.append)
    said = "".join(traceback.format_exception(caught.value))
    said += everything_said(puller, *told, caplog.text, puller.pull(export.url, "--retries", "0").err)
    assert len(said) > 500
    assert [secret for secret in secrets(puller) if secret in said] == []


def test_a_content_named_after_the_token(export: Any, puller: Any) -> None:
    """What goes into the state and onto the terminal is looked through."""
    export.etag = f'"{TOKEN}"'
    done = puller.pull(export.url)
    assert done.code == 0
    assert puller.state()["etag"] is None
    export.manifest["content_id"] = f"x-{TOKEN}"
    refused = puller.pull(export.url)
    assert refused.code == 1
    said = everything_said(puller, done.out, done.err, refused.out, refused.err)
    assert [secret for secret in secrets(puller) if secret in said] == []


def test_a_redirect_within_the_server(export: Any, puller: Any) -> None:
    """The same scheme, host and port get the token again."""
    export.once(MESSAGES, export.fail.redirect(MESSAGES))
    assert puller.pull(export.url).code == 0
    assert [headers["Authorization"] for _, headers in export.seen] == [f"Bearer {TOKEN}"] * 3


def test_a_redirect_to_another_server(export: Any, serve: Callable[..., Any], puller: Any) -> None:
    """Another one is asked without the token; what it gives has to fit the manifest."""
    other = serve()
    other.token = None
    other.body, other.etag = export.body, None
    export.for_ever(MESSAGES, export.fail.redirect(f"{other.url}/export/v1/messages"))
    assert puller.pull(export.url).code == 0
    ((_, headers),) = other.seen
    assert "Authorization" not in headers
    assert TOKEN not in str(headers)


@pytest.mark.parametrize("to", ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "http://localhost.example/x"])
def test_a_redirect_to_an_unsafe_place(export: Any, puller: Any, to: str) -> None:
    """In the clear to another machine: not even without the token."""
    export.for_ever(MESSAGES, export.fail.redirect(to))
    done = puller.pull(export.url)
    assert done.code == 1
    assert "an address that is not safe" in done.err
    assert not puller.output.exists()


@pytest.mark.parametrize("to", ["https://xn--/x", "https://a..b/x", "https://[/x", "//", "https://h:99999/"])
def test_a_redirect_to_nowhere(export: Any, puller: Any, to: str) -> None:
    """An address that is none is an error like others, once it was tried as often as wanted."""
    export.for_ever(MESSAGES, export.fail.redirect(to))
    done = puller.pull(export.url, "--retries", "0", "--timeout", "5")
    assert done.code == 1
    assert "CorpusError: " in done.err
    assert "to do: " in done.err


def test_the_body_of_a_redirect_is_not_read(export: Any, puller: Any) -> None:
    """However much comes with it."""
    export.once(MESSAGES, export.fail.redirect(MESSAGES, Content_Length="1000000000000"))
    assert puller.pull(export.url, "--timeout", "5").code == 0


def test_redirects_without_end(export: Any, puller: Any) -> None:
    """They are followed a few times."""
    export.for_ever(MANIFEST, export.fail.redirect(MANIFEST))
    done = puller.pull(export.url)
    assert done.code == 1
    assert "from one address to the next" in done.err
    assert export.asked(MANIFEST) == 6


@pytest.mark.parametrize("which", ["token_file", "identity_file"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_secret_that_others_may_read(export: Any, puller: Any, which: str, mode: int) -> None:
    """It is refused before anything is sent, with what to type; a link to such a file too."""
    path: Path = getattr(puller, which)
    path.chmod(mode)
    refused = [puller.pull(export.url)]
    link = path.with_name("link")
    link.symlink_to(path)
    setattr(puller, which, link)
    refused.append(puller.pull(export.url))
    for done in refused:
        assert done.code == 1
        assert "others may read or change the" in done.err
        assert "chmod 600" in done.err
        assert f"mode {mode:04o}" in done.err
    assert str(path) in refused[1].err
    assert export.seen == []


def test_a_link_to_a_safe_file(export: Any, puller: Any) -> None:
    """What counts is the file behind it."""
    link = puller.folder / "link"
    link.symlink_to(puller.token_file)
    puller.token_file = link
    assert puller.pull(export.url).code == 0


def test_what_stands_in_the_address_is_not_shown(export: Any, puller: Any) -> None:
    """A user and password in the address are refused, and not repeated."""
    done = puller.pull(export.url.replace("://", "://me:pa55word@"))
    assert done.code == 1
    assert "holds more than scheme, host, port and path" in done.err
    assert "pa55word" not in done.err
    assert export.seen == []


def test_a_token_goes_in_the_clear_on_request_only(puller: Any) -> None:
    """http to another machine is refused, with the two ways out."""
    done = puller.pull("http://192.0.2.1/bot")
    assert done.code == 1
    assert "in the clear" in done.err
    assert "--allow-http" in done.err


def test_others_cannot_read_what_is_being_written(
    export: Any, puller: Any, wait_for: Callable[..., None]
) -> None:
    """With whatever umask, no file of a pull is ever open to others, but for the empty lock."""
    export.for_ever(MESSAGES, export.fail.drip)
    export.put_body(b"x" * 100_000)
    command = [sys.executable, "-m", "pytest_ngram.cli", *puller.arguments(export.url)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, umask=0) as process:
        wait_for(lambda: export.asked(MESSAGES) == 1)
        found = [(entry.name, entry.stat()) for entry in os.scandir(puller.output.parent)]
        process.terminate()
    assert [name for name, stat in found if stat.st_mode & 0o077 and stat.st_size] == []
    assert [name for name, _ in found] == ["chats.jsonl.gz.lock"]
