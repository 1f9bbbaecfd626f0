"""A report as one HTML file that needs nothing else and asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.page import Figure, Page, Shown, build
from pytest_ngram.report.plots import draw

if TYPE_CHECKING:
    pass


def page(shown: Shown, language: str = "en") -> str:
    """Return the report. The same run makes the same text."""
    return render(build(shown, catalogue(language), language))


def render(view: Page) -> str:
    """Return a page as HTML. All that is foreign is escaped; scripts but the page's own are forbidden."""
    import jinja2

    text = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text.filters["svg"] = _svg
    script = _file("report.js")
    return text.get_template("report.html.j2").render(
        page=view,
        text=catalogue(view.language).tell,
        style=_trusted(_file("report.css")),
        script=_trusted(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _svg(figure: Figure) -> str:
    return _trusted(draw(figure.plot, figure.id)) if figure.plot is not None else _trusted("")


def _trusted(text: str) -> str:
    """Text of ours that is HTML already."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - a file of this package, or a drawing whose text matplotlib has escaped


@cache
def _file(name: str) -> str:
    return files("pytest_ngram.report").joinpath("templates", name).read_text(encoding="utf-8")
