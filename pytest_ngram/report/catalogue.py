"""The texts of all reasons: one file a language."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from pytest_ngram.matrix.yaml_text import load
from pytest_ngram.verdict.codes import Reason
from pytest_ngram.verdict.points import Claim
from pytest_ngram.verdict.types import Decision


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Format strings: of reasons by code, of all else by key; and words for decisions and claims."""

    decision: dict[Decision, str]
    claim: dict[Claim, str]
    line: dict[str, str]
    reason: dict[str, str]
    page: dict[str, str]

    def say(self, reason: Reason) -> str:
        """Return a reason in words."""
        return self.reason[reason.code].format(**reason.values)

    def tell(self, key: str, **values: object) -> str:
        """Return what a report says under a key of `page`."""
        return self.page[key].format(**values)


@cache
def catalogue(language: str = "en") -> Catalogue:
    """Return the texts of a language of `report/texts`."""
    text = files("pytest_ngram.report").joinpath("texts", f"{language}.yaml").read_text(encoding="utf-8")
    return msgspec.convert(load(text, f"{language}.yaml"), Catalogue)
