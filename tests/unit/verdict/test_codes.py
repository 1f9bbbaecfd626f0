"""The codes of reasons: each is one that a verdict can give."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_ngram.verdict
from pytest_ngram.verdict.codes import CODES

ROOM = Path(pytest_ngram.verdict.__file__).parent


@pytest.mark.parametrize("code", sorted(CODES))
def test_no_code_is_left_over(code: str) -> None:
    """A code that nothing gives any more leaves the table, and with it the texts of all languages."""
    sources = [path for path in ROOM.glob("*.py") if path.name != "codes.py"]
    assert any(f'"{code}"' in path.read_text(encoding="utf-8") for path in sources)
