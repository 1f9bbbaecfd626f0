"""A run and its verdict to what a report shows. Pure: nothing is computed in a template."""

from pytest_ngram.report.page.build import build
from pytest_ngram.report.page.types import (
    Band,
    Figure,
    Head,
    Mark,
    ModelPart,
    Page,
    Plot,
    Rule,
    Section,
    Series,
    Shown,
    Table,
    Td,
)

__all__ = [
    "Band",
    "Figure",
    "Head",
    "Mark",
    "ModelPart",
    "Page",
    "Plot",
    "Rule",
    "Section",
    "Series",
    "Shown",
    "Table",
    "Td",
    "build",
]
