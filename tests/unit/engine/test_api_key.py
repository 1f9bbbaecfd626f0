"""The key of a server comes from the environment, and is never shown."""

from __future__ import annotations

import pytest

from pytest_ngram.engine import api_key
from pytest_ngram.errors import EngineError


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({}, None),
        ({"PYTEST_NGRAM_API_KEY": ""}, None),
        ({"LLAMA_API_KEY": "theirs"}, "theirs"),
        ({"PYTEST_NGRAM_API_KEY": " mine\n", "LLAMA_API_KEY": "theirs"}, "mine"),
    ],
)
def test_first_variable_counts(environment: dict[str, str], key: str | None) -> None:
    """Our own variable comes before llama-server's; an empty one is none."""
    assert api_key.of_environment(environment) == key


@pytest.mark.parametrize("key", ["two words", "s3cret\nmore", "s3crét", "s3cret\x00"])
def test_key_that_cannot_be_sent(key: str) -> None:
    """What cannot stand in a header is refused by its variable, and not shown."""
    with pytest.raises(EngineError, match="LLAMA_API_KEY") as caught:
        api_key.of_environment({"LLAMA_API_KEY": key})
    assert "s3cr" not in str(caught.value)
    assert "words" not in str(caught.value)


def test_key_is_hidden_in_a_text() -> None:
    """What a server says back is shown without the key."""
    assert api_key.hidden("no s3cret here: s3cret", "s3cret") == "no [key] here: [key]"
    assert api_key.hidden("as it is", None) == "as it is"


@pytest.mark.parametrize(
    "text",
    [
        "--llama-server-flags=-t 1 --api-key=sekret1",
        "--llama-server-flags=--api-key sekret1 -t 1",
        "-t 1 --api_key 'sek ret1' -c 1",
        '-t 1 --api-key="sek ret1"',
        "--api-key-file /home/sekret1",
        "-t 1 --apikey sekret1",
        "--API-KEY sekret1 -np 1",
        "-hft sekret1",
        "--hf-token=sekret1",
        "--llama-server=http://us3r:sekret1@host:1/x",
        "https://us3r:sek@ret1@host",
        "ftp://sekret1@host",
    ],
)
def test_a_command_line_is_shown_without_secrets(text: str) -> None:
    """Whatever stands after a flag for keys, or before the @ of an address, is hidden; the rest is not."""
    shown = api_key.without_secrets(text)
    assert api_key.HIDDEN in shown
    for secret in ("sek", "ret1", "us3r"):
        assert secret not in shown
    for kept in ("-t 1", "-np 1", "-c 1", "host"):
        assert (kept in shown) == (kept in text)


@pytest.mark.parametrize(
    "text", ["-k mtp1/", "--llama-server=http://h:1/x?a", "bench/test@x.py", "-t 1 -c 4096"]
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    """A command line without secrets stays as it is."""
    assert api_key.without_secrets(text) == text
