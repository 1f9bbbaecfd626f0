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
