"""The HTML file: whole, alone, the same each time, and deaf to what is written in it by others."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from pytest_ngram.record import Record
from pytest_ngram.report.html import page
from pytest_ngram.report.page import Section, Shown

Cells = Callable[..., list[Record]]
Make = Callable[..., Shown]
EVIL = "<script>alert(1)</script>\"'&{{ 7*7 }}$x^2$"
VOID = {"meta", "link", "br", "path", "use", "rect", "input"}


class Read(HTMLParser):
    """What a browser would see: tags with their attributes, ids, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _tag, attributes in self.tags if name in attributes]


@pytest.fixture
def written(cells_of: Cells, shown: Make) -> str:
    return page(shown(cells_of("none", "mtp1")))


def test_every_tag_is_closed_and_every_id_is_one(written: str) -> None:
    """The page is well formed, and no two things have one id: links lead to what they mean."""
    read = Read(written)
    assert read.open == []
    assert [name for name, n in Counter(read.attributes("id")).items() if n > 1] == []


def test_every_link_leads_somewhere_in_the_page(written: str) -> None:
    """Links, in the text and in drawings, lead to ids of the page, and nowhere else."""
    read = Read(written)
    ids = set(read.attributes("id"))
    links = [*read.attributes("href"), *read.attributes("xlink:href")]
    assert len(links) > 50
    assert {link for link in links if link != "data:,"} <= {f"#{name}" for name in ids}
    assert set(re.findall(r"url\(#([^)]*)\)", written)) <= ids


def test_nothing_is_asked_of_the_network(written: str) -> None:
    """No address stands in the page but the names of SVG's own, and its policy forbids all loading."""
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", written) == []
    assert not {"src", "srcset", "action", "poster"} & {name for _t, a in Read(written).tags for name in a}
    assert "default-src 'none'" in written
    assert "@import" not in written


def test_the_policy_lets_run_the_pages_own_script_alone(written: str) -> None:
    """There is one script, and the policy has its hash: what somebody else wrote cannot run."""
    (script,) = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in written.replace("&#39;", "'")


def test_what_others_wrote_is_text(cells_of: Cells, shown: Make, failed_of: Callable[..., Record]) -> None:
    """Names, reasons, log lines and sections that look like HTML or templates are shown as they are."""
    cells = [
        replace(r, cell=replace(r.cell, model=EVIL, prompt=f"{EVIL}{r.cell.prompt}"))
        for r in cells_of("none", "mtp1")
    ]
    cells = [replace(r, cell=replace(r.cell, config=EVIL)) if r.cell.config == "mtp1" else r for r in cells]
    cells[-1] = failed_of(cells[-1], "crash", f"reason {EVIL}", f"log {EVIL}")
    written = page(shown(cells, [Section("more", EVIL, (EVIL,))]))
    assert written.count("<script") == 1
    text = "".join(Read(written).text)
    for said in (f"reason {EVIL}", f"log {EVIL}", f"{EVIL}, temperature 0"):
        assert said in text
    assert Read(written).open == []


def test_the_same_run_makes_the_same_bytes(cells_of: Cells, shown: Make) -> None:
    """No date, no chance: a report can be compared with another by its bytes."""
    cells = cells_of("none", "mtp1", "ngram-simple")
    assert page(shown(cells)) == page(shown(cells))


def test_plots_take_the_pages_colours(written: str) -> None:
    """No drawing has a colour of its own, so each can be read in light and dark; letters are letters."""
    drawings = re.findall(r"<svg.*?</svg>", written, re.DOTALL)
    assert len(drawings) == 8
    for drawing in drawings:
        assert (
            re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\"'])", re.sub(r'(?:href="|url\()#[^")]*', "", drawing))
            == []
        )
        assert "var(--ink)" in drawing
        assert "<text" in drawing
    styles = "".join(re.findall(r"<style>(.*?)</style>", written, re.DOTALL))
    assert set(re.findall(r"var\((--[a-z0-9]+)\)", written)) <= set(re.findall(r"(--[a-z0-9]+):", styles))


def test_what_is_drawn_can_be_heard(written: str) -> None:
    """Drawings have a name in words, tables captions and heads with a scope, regions that scroll a name."""
    tags = Read(written).tags
    plots = [attributes for _tag, attributes in tags if attributes.get("class") == "plot"]
    assert len(plots) == 8
    assert all(plot["role"] == "img" and len(plot["aria-label"]) > 20 for plot in plots)
    names = Counter(tag for tag, _attributes in tags)
    assert names["table"] == names["caption"] >= 10
    assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")
    scrolls = [attributes for _tag, attributes in tags if attributes.get("class") == "scroll"]
    assert all(each["tabindex"] == "0" and each["aria-label"] for each in scrolls)
    assert ("html", {"lang": "en"}) in tags


def test_the_answer_comes_first_whatever_else_there_is(cells_of: Cells, shown: Make) -> None:
    """Of one model its answer stands ahead of a comparison, and plots and cells behind it."""
    written = page(shown(cells_of("none", "mtp1"), [Section("two", "Against another", ("said",))]))
    places = [
        written.index(each) for each in ("<h2>adopt mtp1", "class=floor", "Against another", "class=plot")
    ]
    assert places == sorted(places)
