"""Drawings: whatever is in a plot, it is drawn, whole and the same each time, and its text is text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from pytest_ngram.report.page import Band, Mark, Plot, Rule, Series
from pytest_ngram.report.plots import draw, look
from pytest_ngram.report.svg import COLOURS, colour

ONE = Series("a", 1, (Mark(0, 2.0),))
PLOTS = {
    "one mark": Plot("x", (ONE,), categories=("a",)),
    "two that are equal": Plot("x", (Series("a", 0, (Mark(0, 1.0, 1.0, 1.0), Mark(1, 1.0))),), ("a", "b")),
    "a number's axis": Plot(
        "y", (Series("a", 3, (Mark(1, 0.5, 0.4, 0.6), Mark(4, 0.1)), joined=True),), place_label="x"
    ),
    "bars": Plot("x", (ONE, Series("b", 2, (Mark(0, 1.0),))), categories=("a",), bars=True),
    "all that can stand beside": Plot(
        "x",
        (ONE,),
        categories=("a",),
        band=Band(-1.0, 1.0, "the noise"),
        rules=(Rule("wanted", 0.5),),
        percent=True,
        signed=True,
    ),
    "lines across": Plot(
        "y", (Series("a", 1, (Mark(1, 1.0),)),), rules=(Rule("r", points=((1, 1), (4, 2))),)
    ),
    "many series": Plot(
        "x", tuple(Series(f"s{n}", n, (Mark(0, n), Mark(1, -n))) for n in range(40)), ("a", "b")
    ),
    "long names": Plot("x", (Series("n" * 80, 1, (Mark(0, 1.0),)), ONE), categories=("n" * 80,)),
    "names that look like more": Plot(
        "$x^2$", (Series("$_{$<b>&", 1, (Mark(0, 1.0), Mark(1, 2.0))),), ("$", "<a>")
    ),
    "other letters": Plot(
        "скорость", (Series("漢字 \N{FIRE}", 1, (Mark(0, 1.0), Mark(1, 1.0))),), ("имя", "x")
    ),
}


@pytest.fixture(params=PLOTS, ids=lambda name: name.replace(" ", "-"))
def plot(request: pytest.FixtureRequest) -> Plot:
    return PLOTS[request.param]


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg.replace("xlink:href", "href"))  # noqa: S314 - it was made here


@pytest.mark.filterwarnings("error")
def test_it_is_drawn_and_well_formed(plot: Plot) -> None:
    """One element, without a warning, that takes the width of its place."""
    svg = draw(plot, "f1")
    root = parsed(svg)
    assert root.tag == "svg"
    assert "viewBox" in root.attrib
    assert not {"width", "height"} & root.attrib.keys()
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    assert all(name.startswith("f1-") for name in ids)


def test_it_is_the_same_each_time(plot: Plot) -> None:
    """The same plot makes the same bytes."""
    assert draw(plot, "f1") == draw(plot, "f1")


def test_names_are_shown_as_they_are() -> None:
    """No name is taken for mathematics or for a tag."""
    text = "".join(parsed(draw(PLOTS["names that look like more"], "f")).itertext())
    for said in ("$x^2$", "$_{$<b>&", "<a>"):
        assert said in text


def test_a_long_name_is_cut_beside_its_row_alone() -> None:
    """A row's name leaves room for the plot, and says that it goes on."""
    svg = draw(PLOTS["long names"], "f")
    assert f">{'n' * 23}…<" in svg


def test_colours_are_the_pages() -> None:
    """Every colour of a style is a variable of the page, and there are as many as are said."""
    assert len({colour(n) for n in range(COLOURS)}) == COLOURS
    used = set(re.findall(r"var\(--c(\d)\)", draw(PLOTS["many series"], "f")))
    assert used == {str(n) for n in range(COLOURS)}


def test_no_config_is_told_by_its_colour_alone() -> None:
    """Who sees no colours sees shapes; no two configs of a matrix have both in common."""
    looks = [look(n) for n in range(77)]
    assert len(set(looks)) == len(looks)
    assert len({shape for _colour, shape in looks[:11]}) == 11
