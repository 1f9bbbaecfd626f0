"""What all figures of a model's part share."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.page.cells import Cells
from pytest_ngram.verdict.types import Settings


@dataclass(frozen=True)
class Part:
    """What all figures of a model's part share.

    Args:
        id: of the part, which all its ids begin with.
        cells: of the model at a temperature.
        styles: of the configs, the same in all plots.
        settings: of the verdict.
        texts: words.
    """

    id: str
    cells: Cells
    styles: dict[str, int]
    settings: Settings
    texts: Catalogue

    def tell(self, key: str, **values: object) -> str:
        """Return what a report says under a key."""
        return self.texts.tell(key, **values)
