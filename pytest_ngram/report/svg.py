"""matplotlib's SVG made part of a page: colours become the page's variables, ids the plot's own."""

from __future__ import annotations

import re

# What is drawn with these is no colour but a name: the page says, for light and for dark, what it is.
INK, RULE, BAND = "#010101", "#020202", "#030303"
COLOURS = 7
_NAMES = {INK: "var(--ink)", RULE: "var(--rule)", BAND: "var(--band)"}
_NAMES |= {f"#0{n}0404": f"var(--c{n})" for n in range(COLOURS)}

_BEFORE = re.compile(r"\A.*?(?=<svg\b)", re.DOTALL)
_UNWANTED = re.compile(
    r"<metadata>.*?</metadata>|<defs>\s*<style[^>]*>.*?</style>\s*</defs>|<!--.*?-->", re.DOTALL
)
_TAG = re.compile(r"<[^<>]*>")
_FONT = re.compile(r"font: (?P<size>[\d.]+)px [^;\"]*")
_DECIMALS = re.compile(r"\d+\.\d{3,}")


def colour(style: int) -> str:
    """Return the name of a style's colour, for matplotlib."""
    return f"#0{style % COLOURS}0404"


def inline(svg: str, of: str) -> str:
    """Return an SVG file of matplotlib's as an element for a page, whose ids begin with `of`.

    Only tags are changed, never the text between them, which may be anything.
    """
    element = _UNWANTED.sub("", _BEFORE.sub("", svg))
    return re.sub(r">\s*\n\s*<", "><", _TAG.sub(lambda tag: _changed(tag[0], of), element)).strip()


def _changed(tag: str, of: str) -> str:
    tag = re.sub(r"#0[0-9]0[1-4]0[1-4]", lambda found: _NAMES.get(found[0], found[0]), tag)
    tag = re.sub(r'\bid="', f'id="{of}-', tag)
    tag = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{of}-", tag)
    tag = _FONT.sub(lambda found: f"font-size: {found['size']}px", tag)
    if tag.startswith("<svg"):
        tag = re.sub(r'\s(?:width|height|xmlns(?::xlink)?|version)="[^"]*"', "", tag)
        return tag[:-1] + ' aria-hidden="true" focusable="false">'
    return _DECIMALS.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag)
