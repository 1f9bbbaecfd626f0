"""Which addresses a token may go to, and how long a pull waits."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram import cli
from pytest_ngram.corpus.export_limits import MB, Limits, base_url, check_redirect
from pytest_ngram.corpus.export_patience import Deadline, PassingError, retried, wanted_pause_s
from pytest_ngram.corpus.state import PullState
from pytest_ngram.errors import CorpusError


@pytest.mark.parametrize(
    "text",
    [
        "https://host",
        "https://host:8443/a/b",
        "https://192.0.2.1",
        "http://localhost:8080",
        "http://LOCALHOST",
        "http://127.0.0.1:1/x",
        "http://127.8.9.10",
        "http://[::1]:8080",
    ],
)
def test_an_address_that_may_be_asked(text: str) -> None:
    """https anywhere, http on this machine; slashes at the end count for nothing."""
    assert base_url(f"{text}/", allow_http=False) == httpx.URL(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://host",
        "http://192.168.1.2:8080",
        "http://[2001:db8::1]",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "http://0.0.0.0:80",
    ],
)
def test_a_token_does_not_travel_in_the_clear(text: str) -> None:
    """http to another machine, by whatever name: only where the user says that the way is safe."""
    with pytest.raises(CorpusError, match="in the clear"):
        base_url(text, allow_http=False)
    assert base_url(text, allow_http=True) == httpx.URL(text)


@pytest.mark.parametrize(
    "text",
    [
        "host",
        "host:8080/s3cret",
        "ftp://host/s3cret",
        "https://",
        "https:///s3cret",
        "https://host:99999999/s3cret",
        "https://host/\x00s3cret",
        "https://me:s3cret@host",
        "https://s3cret@host",
        "https://host/?token=s3cret",
        "https://host/#s3cret",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """It is refused with what an address looks like, and is not repeated: it may be a secret."""
    with pytest.raises(CorpusError, match="the export's address") as caught:
        base_url(text, allow_http=True)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "to", "safe"),
    [
        ("https://host", "https://host/other", True),
        ("https://host", "https://store.example/x", True),
        ("http://vpn", "http://vpn/other", True),
        ("http://vpn", "https://vpn/other", True),
        ("http://localhost:1", "http://127.0.0.1:2/x", True),
        ("https://host", "http://host/other", False),
        ("https://localhost", "http://localhost/x", False),
        ("http://vpn", "http://other/x", False),
        ("http://vpn", "http://localhost/x", False),
        ("http://localhost", "http://host/x", False),
        ("https://host", "ftp://host/x", False),
    ],
)
def test_where_a_redirect_may_lead(base: str, to: str, safe: bool) -> None:
    """To https, or to where the token goes anyway; never from https to http."""
    if safe:
        check_redirect(httpx.URL(base), httpx.URL(to))
        return
    with pytest.raises(CorpusError, match="not safe"):
        check_redirect(httpx.URL(base), httpx.URL(to))


def test_what_retry_after_says() -> None:
    """Seconds, or a date; nothing else."""
    assert wanted_pause_s(None) is None
    assert wanted_pause_s("0") == 0
    assert wanted_pause_s("120") == 120
    assert wanted_pause_s("9" * 400) == 999_999_999
    for text in ("", "soon", "-1", "1.5", "²", "Mon, 99 Foo 2026"):
        assert wanted_pause_s(text) is None, text
    in_a_minute = wanted_pause_s(formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 55 < in_a_minute <= 60
    assert wanted_pause_s("Mon, 05 Jan 2026 00:00:00 -0000") == 0


@given(st.text(max_size=40))
def test_any_retry_after_can_be_read(text: str) -> None:
    """Whatever a server writes, it is a pause or none."""
    pause_s = wanted_pause_s(text)
    assert pause_s is None or pause_s >= 0


def test_pauses_double_with_jitter_up_to_the_longest() -> None:
    """Half to whole of 0.01, 0.02, 0.03, 0.03 s here; then the error, with how often was asked."""
    told: list[str] = []
    starts_s: list[float] = []

    def fail() -> None:
        starts_s.append(time.monotonic())
        raise PassingError("the server is tired", base="https://host")

    deadline = Deadline(60)
    deadline.start()
    limits = Limits(retries=4, first_pause_s=0.01, longest_pause_s=0.03)
    with pytest.raises(CorpusError, match="the server is tired") as caught:
        retried(fail, limits, deadline, told.append)
    deadline.stop()
    assert type(caught.value) is CorpusError
    assert caught.value.checked == ("https://host", "attempts: 5")
    assert [line.split("; ")[1].split(" in ")[0] for line in told] == [
        f"attempt {n} of 5" for n in (2, 3, 4, 5)
    ]
    pauses_s = [b - a for a, b in itertools.pairwise(starts_s)]
    for pause_s, whole_s in zip(pauses_s, (0.01, 0.02, 0.03, 0.03), strict=True):
        assert whole_s / 2 <= pause_s


def test_the_page_and_the_command_line_say_what_is() -> None:
    """Defaults of the options are those of `Limits`; the page names them, and each field of the state."""
    words = ["corpus", "pull", "https://host", "-o", "x.gz", "--token-file", "t", "--identity", "k"]
    told = cli.parser().parse_args(words)
    limits = Limits()
    assert (told.timeout, told.max_time, told.retries) == (limits.silence_s, limits.total_s, limits.retries)
    assert told.max_mb * MB == limits.max_bytes
    page = (Path(__file__).parents[3] / "docs" / "corpus-pull.md").read_text(encoding="utf-8")
    for name, value in (
        ("timeout", limits.silence_s),
        ("max-time", limits.total_s),
        ("retries", limits.retries),
    ):
        assert f"`--{name}` ({value:g})" in page
    fields = set(PullState.__struct_fields__) - {"schema"}
    assert {field for field in fields if f"`{field}`" not in page} == set()


def test_the_command_line_loads_nothing_heavy() -> None:
    """What a pull needs is loaded by a pull: --help stays fast."""
    look = (
        "import argparse, sys; from pytest_ngram.cli import corpus; "
        "corpus.add(argparse.ArgumentParser().add_subparsers()); "
        "print({'httpx', 'pyrage', 'msgspec', 'numpy', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"
