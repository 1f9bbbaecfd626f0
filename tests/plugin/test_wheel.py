"""The wheel is what gets tested, and it carries the data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pytest_ngram

ROOT = Path(__file__).parents[2]
INSTALLED = Path(pytest_ngram.__file__).parent

needs_wheel = pytest.mark.skipif(
    "TOX_ENV_NAME" not in os.environ, reason="an editable install has no wheel to look at; tox installs one"
)


@needs_wheel
def test_the_tree_is_not_what_is_imported() -> None:
    """A file that the wheel lacks must not be found in the checkout by accident."""
    assert not INSTALLED.is_relative_to(ROOT) or ".tox" in INSTALLED.parts


@needs_wheel
@pytest.mark.parametrize("folder", ["prompts", "corpus"])
def test_the_wheel_has_the_fixtures(folder: str) -> None:
    """Prompt sets, tool schemas, demo corpus and its licence notices are in the wheel, byte for byte."""
    files = sorted(path for path in (ROOT / "fixtures" / folder).iterdir() if path.is_file())
    assert len(files) >= 2
    for path in files:
        assert (INSTALLED / "_data" / folder / path.name).read_bytes() == path.read_bytes()


@needs_wheel
def test_the_package_is_typed() -> None:
    """`py.typed` tells type checkers of users that annotations are meant."""
    assert (INSTALLED / "py.typed").is_file()
