"""What of a model counts as memory that a table would take away."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.engine.vocabulary import EmbeddedFlags
from pytest_ngram.measure.servers import paged_bytes
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate


@pytest.mark.parametrize(
    ("flags", "counts"),
    [
        ("", True),
        ("-ngl 0", True),
        ("-ngl 12", False),
        ("-ngl all", False),
        ("--load-mode none", False),
        ("--load-mode mmap+mlock", True),
    ],
)
def test_the_file_counts_where_the_kernel_pages_it(flags: str, counts: bool, session_cache: Path) -> None:
    """A model that is read is memory of the server's own already; of one on a GPU the share is not known."""
    facts = inspect(generate(HandBuiltSpec(), session_cache / "models"))
    parsed = EmbeddedFlags().parse(["-m", str(facts.path), *flags.split()])
    assert paged_bytes([facts, facts], parsed) == (2 * facts.size_bytes if counts else 0)
