"""The page's worked examples are what the drafters do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ngram.drafting.policy import DEFAULTS

PAGE = (Path(__file__).parents[3] / "docs" / "replay.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `([a-z0-9-]+:[^`]+)` \| `([\d ]+)` \| `([\d ]+|none)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("policy", "text", "drafted"), EXAMPLES)
def test_an_example_is_true(draft: Callable[[str, str], str], policy: str, text: str, drafted: str) -> None:
    """After the text of a row the policy drafts what the row says."""
    assert draft(policy, text) == drafted


def test_every_drafter_has_an_example() -> None:
    """No drafter is left without one, with a draft and without."""
    for name in DEFAULTS:
        drafts = {drafted == "none" for policy, _text, drafted in EXAMPLES if policy.startswith(f"{name}:")}
        assert drafts == {True, False}, name
