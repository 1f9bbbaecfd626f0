"""`--ngram-adopt`: what was said is what is judged by."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.options.adopt import parse
from pytest_ngram.verdict.types import Settings


def test_what_is_named_is_set_and_the_rest_keeps_its_default() -> None:
    """Percent become shares; MiB stay."""
    assert parse("") == Settings()
    assert parse("tg:+2.5%") == Settings(threshold=0.025)
    assert parse("tg:+0%, pp:-30%,rss:+10%,rss:+1000MiB") == Settings(
        threshold=0.0, pp_loss=0.3, rss_gain=0.1, rss_least_mb=1000.0
    )


def test_the_default_is_what_the_help_says() -> None:
    """The words of --help, read back, are the defaults."""
    assert parse("tg:+5%,pp:-15%,rss:+25%,rss:+256MiB") == Settings()


@pytest.mark.parametrize(
    "text",
    [
        "tg:5%",
        "tg:-5%",
        "pp:+5%",
        "rss:+5",
        "tg:+5MiB",
        "speed:+5%",
        "tg:+5%;pp:-5%",
        "tg:+5%,tg:+0%",
        f"tg:+{'9' * 400}%",
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    """A sign, unit or name that is not one of ours names the part and what may be said."""
    with pytest.raises(OptionError, match="--ngram-adopt cannot be read") as caught:
        parse(text)
    assert "tg:+5%" in caught.value.fix


def test_the_plugin_loads_without_what_judges() -> None:
    """pytest loads the plugin in every project: neither msgspec nor numpy nor scipy comes with that."""
    heavy = "[name for name in ('msgspec', 'numpy', 'scipy') if name in sys.modules]"
    code = f"import sys, pytest_ngram.plugin; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
